#include <foredraft/backend/cpu/usable_cpus.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "support/catch.hpp"
#include "support/files.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace cpu = foredraft::cpu;

#if defined(__linux__)
namespace {

/// A folder in the place of /. The names of the files begin below /sys/fs/cgroup.
struct Root {
  Root(const std::string& own_groups, const std::map<std::string, std::string>& files) {
    std::filesystem::create_directories(folder.path / "proc/self");
    std::ofstream(folder.path / "proc/self/cgroup") << own_groups;
    for (const auto& [name, text] : files) {
      const std::filesystem::path file = folder.path / "sys/fs/cgroup" / name;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text << '\n';
    }
  }
  TestFolder folder{"cgroup"};
};

/// The quota where these are the files.
std::optional<double> quota(const std::string& own_groups,
                            const std::map<std::string, std::string>& files) {
  return cpu::cgroup_cpu_quota(Root(own_groups, files).folder.path.string());
}

}  // namespace
#endif

TEST_CASE("a cgroup quota is read as processors") {
  CHECK(cpu::parse_cpu_max("150000 100000") == 1.5);
  CHECK_FALSE(cpu::parse_cpu_max("max 100000"));
  CHECK_FALSE(cpu::parse_cpu_max("-1 100000"));  // cgroup v1 without a limit
  CHECK_FALSE(cpu::parse_cpu_max("100000 0"));
  CHECK_FALSE(cpu::parse_cpu_max(""));
}

#if defined(__linux__)
TEST_CASE("the least quota of a group and those above it counts, cgroup v2") {
  const std::string own = "0::/user/service/task\n";
  CHECK_FALSE(quota(own, {}));
  CHECK_FALSE(quota(own, {{"user/service/task/cpu.max", "max 100000"}}));
  CHECK(quota(own, {{"user/service/task/cpu.max", "250000 100000"}}) == 2.5);
  CHECK(quota(own, {{"user/cpu.max", "150000 100000"},
                    {"user/service/cpu.max", "300000 100000"},
                    {"user/service/task/cpu.max", "max 100000"}}) == 1.5);
  // a group beside ours, and one below
  CHECK_FALSE(quota(own, {{"user/other/cpu.max", "100000 100000"},
                          {"user/service/task/below/cpu.max", "100000 100000"}}));
  // The path of a container as the machine outside sees it: what is mounted is our own group.
  CHECK(quota("0::/../outside\n", {{"cpu.max", "50000 100000"}}) == 0.5);
  CHECK(quota("0::/\n", {{"cpu.max", "50000 100000"}}) == 0.5);
}

TEST_CASE("the least quota of a group and those above it counts, cgroup v1") {
  const std::string own = "5:cpu,cpuacct:/docker/a\n4:memory:/docker/b\n3:cpuset:/docker/c\n";
  CHECK_FALSE(quota(own, {}));
  CHECK_FALSE(quota(own, {{"cpu/docker/a/cpu.cfs_quota_us", "-1"},
                          {"cpu/docker/a/cpu.cfs_period_us", "100000"}}));
  CHECK(quota(own, {{"cpu/docker/a/cpu.cfs_quota_us", "-1"},
                    {"cpu/docker/a/cpu.cfs_period_us", "100000"},
                    {"cpu/docker/cpu.cfs_quota_us", "100000"},
                    {"cpu/docker/cpu.cfs_period_us", "50000"}}) == 2);
  // groups of other controllers, whose names may begin alike
  CHECK_FALSE(quota(own, {{"cpu/docker/b/cpu.cfs_quota_us", "100000"},
                          {"cpu/docker/b/cpu.cfs_period_us", "100000"},
                          {"cpu/docker/c/cpu.cfs_quota_us", "100000"},
                          {"cpu/docker/c/cpu.cfs_period_us", "100000"}}));
  // both versions at once
  CHECK(quota(own + "0::/docker/a\n", {{"cpu/cpu.cfs_quota_us", "300000"},
                                       {"cpu/cpu.cfs_period_us", "100000"},
                                       {"docker/cpu.max", "400000 100000"}}) == 3);
}

TEST_CASE("a quota is cut to whole processors, and one is always left") {
  const auto usable = [](const std::string& max) {
    return cpu::usable_cpus(Root("0::/task\n", {{"task/cpu.max", max}}).folder.path.string());
  };
  const int all = cpu::affinity_cpus();
  CHECK(usable("max 100000") == all);
  CHECK(usable("6400000 100000") == std::min(64, all));
  CHECK(usable("190000 100000") == 1);
  CHECK(usable("20000 100000") == 1);
  CHECK(usable("200000 100000") == std::min(2, all));
}
#endif

TEST_CASE("never more processors than the affinity mask has") {
  CHECK(cpu::usable_cpus() >= 1);
  CHECK(cpu::usable_cpus() <= cpu::affinity_cpus());
#if defined(__linux__)
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &before)) {
      CPU_SET(i, &one);
      break;
    }
  }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const int usable = cpu::usable_cpus();
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(usable == 1);
#endif
}
