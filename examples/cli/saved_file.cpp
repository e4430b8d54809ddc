#include "saved_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

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
  std::ostringstream bytes;  // in memory, so that an error of save() leaves no file behind
  save(bytes);
  const auto refuse = [&](const std::string& found, const std::string& hint) {
    throw fd::Error(fd::ErrorCode::kIo, found, "a file that can be written", hint);
  };
  std::error_code error;
  // Behind links: the file is to be replaced, not the link to it.
  const std::filesystem::path place = std::filesystem::weakly_canonical(file, error);
  if (error) refuse("'" + visible(file) + "': " + error.message(), "name another");
  // A rename would put a file in the place of a device, too.
  if (std::filesystem::exists(place, error) && !std::filesystem::is_regular_file(place, error)) {
    refuse("'" + visible(file) + "', which is no file", "name another");
  }
  const std::string fresh = place.string() + ".new";
  // x: of two that write at the same time, the second one is refused.
  std::FILE* const out = std::fopen(fresh.c_str(), "wbx");
  if (out == nullptr) {
    const bool there = errno == EEXIST;
    refuse("'" + visible(fresh) + "': " + std::strerror(errno),
           there ? "another run is writing, or one was ended meanwhile: remove it then"
                 : "name another");
  }
  const std::string text = std::move(bytes).str();
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  // What is still in the buffer may not fit on the disk, either.
  if (std::fclose(out) != 0 || !written) {
    std::filesystem::remove(fresh, error);
    refuse("'" + visible(fresh) + "', which was not written whole", "is the disk full?");
  }
  std::filesystem::rename(fresh, place, error);
  if (error) {
    // Before remove() gives `error` another value.
    const std::string found = "'" + visible(file) + "': " + error.message();
    std::filesystem::remove(fresh, error);
    refuse(found, "name another");
  }
}

}  // namespace cli
