#include <foredraft/backend/cpu/cpu.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("the widest instruction set is taken, or the one that is asked for") {
  fd::cpu::Isa widest = fd::cpu::Isa::kPortable;
  for (const fd::cpu::KernelTable* table : fd::cpu::available_tables()) {
    if (!fd::cpu::executable(table->isa)) continue;
    widest = table->isa;
    fd::Cpu cpu{{.threads = 1, .isa = table->isa}};
    CHECK(cpu.isa() == table->isa);
  }
  CHECK(fd::Cpu().isa() == widest);
}

TEST_CASE("an instruction set that cannot be had is an error that names the others") {
  for (const fd::cpu::Isa isa : fd::cpu::kAllIsas) {
    bool available = false;
    for (const fd::cpu::KernelTable* table : fd::cpu::available_tables()) {
      available |= table->isa == isa && fd::cpu::executable(isa);
    }
    if (available) continue;
    try {
      fd::Cpu cpu{{.threads = 1, .isa = isa}};
      FAIL("no error");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kInvalidOption);
      CHECK(error.found().find(fd::cpu::name_of(isa)) != std::string::npos);
      CHECK(error.expected().find(fd::cpu::name_of(fd::Cpu().isa())) != std::string::npos);
    }
  }
}

TEST_CASE("threads") {
  CHECK(fd::Cpu{{.threads = 3}}.threads() == 3);
  CHECK(fd::Cpu().threads() == fd::cpu::usable_cpus());
  CHECK_THROWS_AS(fd::Cpu{{.threads = -1}}, fd::Error);
}

TEST_CASE("a packed matrix is whole, however many workers packed it") {
  const auto file = mini::weights(fd::TensorType::kQ4_K, 100, 256, 1);
  std::vector<float> expected(256);
  std::vector<float> row(256);
  for (int threads = 1; threads <= 4; ++threads) {
    fd::Cpu cpu{{.threads = threads}};
    const fd::Cpu::Matrix matrix = cpu.pack(file.view());
    for (std::size_t n = 0; n < 100; ++n) {
      fd::dequantize_row(file.type, file.bytes.data() + n * file.row_size(), 256, expected.data());
      matrix.dequantize_row(static_cast<int>(n), row.data());
      CHECK(row == expected);
    }
  }
}

TEST_CASE("two programs' threads may use one Cpu: passes follow each other") {
  fd::Cpu cpu{{.threads = 2}};
  std::atomic<int> inside = 0;
  std::atomic<bool> mixed = false;
  const auto use = [&] {
    for (int i = 0; i < 100; ++i) {
      cpu.run({.n_rows = 1 + i, .d_model = 64, .d_head = 16},
              [&](fd::Cpu::Worker& worker) noexcept {
                if (++inside > worker.count()) mixed = true;
                worker.barrier();
                --inside;
                worker.barrier();
              });
    }
  };
  std::thread other(use);
  use();
  other.join();
  CHECK_FALSE(mixed);
}
