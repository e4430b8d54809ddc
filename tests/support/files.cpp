#include "support/files.hpp"

std::filesystem::path test_file(std::string_view name) {
  return std::filesystem::path(FOREDRAFT_TEST_FOLDER) / name;
}
