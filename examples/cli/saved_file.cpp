#include "saved_file.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

namespace cli {

std::ifstream open_saved(const std::string& file, std::string_view what, std::string_view hint) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw fd::Error(fd::ErrorCode::kIo, "'" + visible(file) + "': " + std::strerror(errno), what,
                    hint);
  }
  return in;
}

void write_saved(const std::string& file, const std::function<void(std::ostream&)>& save) {
  const std::string fresh = file + ".new";
  try {
    std::ofstream out(fresh, std::ios::binary);
    save(out);
    out.close();
    std::filesystem::rename(fresh, file);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(fresh, ignored);
    throw fd::Error(fd::ErrorCode::kIo, "'" + visible(file) + "': " + error.what(),
                    "a file that can be written", "name another");
  }
}

}  // namespace cli
