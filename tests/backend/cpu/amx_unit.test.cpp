#include <foredraft/backend/cpu/amx_unit.hpp>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <foredraft/backend/cpu/isa.hpp>

#include "backend/cpu/emulated_tiles.hpp"
#include "support/catch.hpp"

namespace cpu = foredraft::cpu;
using amx_under_test::EmulatedUnit;

TEST_CASE("a configuration is laid out as ldtilecfg reads it") {
  cpu::AmxConfig config;
  config.set(3, 9, 40);
  config.set(4, 0, 64);
  unsigned char bytes[64];
  std::memcpy(bytes, &config, sizeof bytes);
  unsigned char expected[64] = {1};
  expected[16 + 2 * 3] = 40;
  expected[48 + 3] = 9;
  CHECK(std::memcmp(bytes, expected, sizeof bytes) == 0);
}

TEST_CASE("tiles are used only where the processor has them") {
  const bool usable = cpu::amx_usable();
  CHECK(cpu::amx_usable() == usable);  // to ask again changes nothing
  if (!usable) CHECK_FALSE(cpu::executable(cpu::Isa::kAmx));
  // The kernel lists what it and the processor support; a process may still be refused.
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags")) {
  }
  if (line.find(" amx_tile") == std::string::npos) CHECK_FALSE(usable);
}

TEST_CASE("an emulated product is the sum over k") {
  auto& record = EmulatedUnit::record();
  record = {};
  std::mt19937 random(1);
  const auto bytes = [&](std::size_t n) {
    std::vector<std::uint8_t> v(n);
    for (auto& byte : v) byte = static_cast<std::uint8_t>(random());
    return v;
  };
  constexpr std::size_t kStride = 72;  // of a and c, with something behind each row
  for (int round = 0; round < 200; ++round) {
    const int rows = 1 + static_cast<int>(random() % 16),
              units = 1 + static_cast<int>(random() % 16);
    const int columns = 1 + static_cast<int>(random() % 16);
    const bool a_signed = random() % 2 != 0, b_signed = random() % 2 != 0;
    cpu::AmxConfig config;
    config.set(0, rows, 4 * columns);
    config.set(1, rows, 4 * units);
    config.set(2, units, 4 * columns);
    const auto a = bytes(16 * kStride), b = bytes(16 * kStride);
    auto c = bytes(16 * kStride);
    const auto before = c;
    EmulatedUnit unit;
    unit.configure(&config);
    for (int m = 0; m < 16; ++m) std::memset(unit.row(0, m), 0xff, 64);
    unit.load(0, c.data(), kStride);
    unit.load(1, a.data(), kStride);
    unit.load(2, b.data(), 64);
    unit.dot(0, 1, 2, a_signed, b_signed);
    unit.store(0, c.data(), kStride);

    const auto extend = [](std::uint8_t v, bool is_signed) {
      return is_signed ? static_cast<int>(static_cast<std::int8_t>(v)) : static_cast<int>(v);
    };
    int n_wrong = 0;
    for (int m = 0; m < 16; ++m) {
      const auto at = foredraft::idx(m) * kStride;
      for (int n = 0; n < 16; ++n) {
        std::int32_t start, got, in_register;
        std::memcpy(&start, &before[at + foredraft::idx(4 * n)], 4);
        std::memcpy(&got, &c[at + foredraft::idx(4 * n)], 4);
        std::memcpy(&in_register, unit.row(0, m) + 4 * n, 4);
        if (m >= rows || n >= columns) {
          n_wrong += got != start;      // memory is left alone
          n_wrong += in_register != 0;  // and the register zero
          continue;
        }
        std::int64_t sum = start;
        for (int k = 0; k < 4 * units; ++k) {
          sum += extend(a[at + foredraft::idx(k)], a_signed) *
                 extend(b[foredraft::idx(k / 4 * 64 + 4 * n + k % 4)], b_signed);
        }
        n_wrong += got != static_cast<std::int32_t>(sum);
      }
      n_wrong += std::memcmp(&c[at + 64], &before[at + 64], kStride - 64) != 0;
    }
    REQUIRE(n_wrong == 0);
    unit.release();
  }
  CHECK(record.faults == 0);
  CHECK(record.configured == 0);
}

TEST_CASE("the emulation refuses what the processor refuses") {
  auto& record = EmulatedUnit::record();
  const auto faults = [&](auto&& use) {
    record = {};
    EmulatedUnit unit;
    cpu::AmxConfig config;
    config.set(0, 4, 64);
    config.set(1, 4, 32);
    config.set(2, 8, 64);
    config.set(3, 9, 64);
    config.set(4, 5, 32);
    use(unit, config);
    unit.release();
    return record.faults;
  };
  unsigned char memory[16 * 64] = {};
  const auto configured = [&](auto&& use) {
    return faults([&](EmulatedUnit& unit, cpu::AmxConfig& config) {
      unit.configure(&config);
      use(unit);
    });
  };
  const auto refused = [&](auto&& change) {
    return faults([&](EmulatedUnit& unit, cpu::AmxConfig& config) {
      change(config);
      unit.configure(&config);
    });
  };
  CHECK(configured([](EmulatedUnit& unit) { unit.dot(0, 1, 2, true, true); }) == 0);
  CHECK(configured([](EmulatedUnit& unit) { unit.dot(0, 1, 3, true, true); }) == 1);
  CHECK(configured([](EmulatedUnit& unit) { unit.dot(0, 4, 2, true, true); }) == 1);
  CHECK(configured([](EmulatedUnit& unit) { unit.dot(0, 0, 2, true, true); }) == 1);
  CHECK(configured([&](EmulatedUnit& unit) { unit.load(5, memory, 64); }) == 1);
  CHECK(faults([&](EmulatedUnit& unit, auto&) { unit.load(0, memory, 64); }) == 1);
  CHECK(faults([&](EmulatedUnit& unit, auto&) { unit.zero(0); }) == 1);
  CHECK(refused([](cpu::AmxConfig&) {}) == 0);
  CHECK(refused([](cpu::AmxConfig& config) { config.set(0, 17, 64); }) == 1);
  CHECK(refused([](cpu::AmxConfig& config) { config.set(0, 16, 65); }) == 1);
  CHECK(refused([](cpu::AmxConfig& config) { config.rows[0] = 0; }) == 1);
  CHECK(refused([](cpu::AmxConfig& config) { config.set(8, 1, 4); }) == 1);
  CHECK(refused([](cpu::AmxConfig& config) { config.palette = 2; }) == 1);
  CHECK(refused([](cpu::AmxConfig& config) { config.reserved[5] = 1; }) == 1);
  record = {};
}
