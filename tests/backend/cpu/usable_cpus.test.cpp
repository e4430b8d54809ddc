#include <foredraft/backend/cpu/usable_cpus.hpp>

#include "support/catch.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace cpu = foredraft::cpu;

TEST_CASE("a cgroup quota is read as processors") {
  CHECK(cpu::parse_cpu_max("150000 100000") == 1.5);
  CHECK_FALSE(cpu::parse_cpu_max("max 100000"));
  CHECK_FALSE(cpu::parse_cpu_max("-1 100000"));  // cgroup v1 without a limit
  CHECK_FALSE(cpu::parse_cpu_max("100000 0"));
  CHECK_FALSE(cpu::parse_cpu_max(""));
}

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
