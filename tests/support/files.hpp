#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// A file or folder that lies in tests/. Only the unit of this function knows where that is: all others
/// compile to the same in every checkout, which compiler caches reward.
std::filesystem::path test_file(std::string_view name);

/// A folder of a test, empty at first and gone at the end.
struct TestFolder {
  std::filesystem::path path;

  explicit TestFolder(const std::string& name)
      : path(std::filesystem::temp_directory_path() /
             ("foredraft." + name + "." + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  /// Names of what lies in it.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  }
};

inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes;
  for (std::istreambuf_iterator<char> at(file), end; at != end; ++at) {
    bytes.push_back(static_cast<std::byte>(*at));
  }
  return bytes;
}
