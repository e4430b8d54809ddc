#include "memory.hpp"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.hpp"

namespace fs = std::filesystem;

namespace {

/// A folder that looks like that of a control group, gone at the end.
struct Group {
  fs::path root = fs::temp_directory_path() / ("foredraft.cgroup." + std::to_string(::getpid()));
  Group() { fs::create_directories(root / "memory"); }
  ~Group() { fs::remove_all(root); }
  void write(const char* name, const std::string& content) const {
    std::ofstream(root / name) << content;
  }
  double left() const { return cli::left_in_group(root); }
};

}  // namespace

TEST_CASE("without files, or without a limit, a group takes nothing away") {
  const Group group;
  CHECK(std::isinf(group.left()));
  group.write("memory.max", "max\n");
  group.write("memory.current", "5000\n");
  CHECK(std::isinf(group.left()));
}

TEST_CASE("pages of files give way, so they are left") {
  const Group group;
  group.write("memory.max", "10000\n");
  group.write("memory.current", "9000\n");
  CHECK(group.left() == 1000);
  group.write("memory.stat", "anon 3000\nfile 6000\ninactive_file 4000\nactive_file 1500\n");
  CHECK(group.left() == 6500);
  // The files are not read in one moment; nothing is left twice.
  group.write("memory.stat", "inactive_file 4000\nactive_file 9500\n");
  CHECK(group.left() == 10000);
  group.write("memory.stat", "inactive_file 0\nactive_file 0\n");
  group.write("memory.current", "12000\n");
  CHECK(group.left() == 0);
}

TEST_CASE("version 1 counts those of the groups below, too") {
  const Group group;
  group.write("memory/memory.limit_in_bytes", "10000\n");
  group.write("memory/memory.usage_in_bytes", "9000\n");
  group.write("memory/memory.stat",
              "inactive_file 1\nactive_file 1\ntotal_inactive_file 2000\ntotal_active_file 500\n");
  CHECK(group.left() == 3500);
}
