#include <foredraft/backend/cpu/key_blocks.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/panel_block.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = fd::cpu;

namespace {

constexpr int kBlock = cpu::kKeyBlock;

/// Rows for a block, every byte at random.
template <typename T>
std::vector<std::byte> random_rows(int d_head) {
  std::mt19937 random(3);
  std::vector<std::byte> rows(fd::idx(kBlock * fd::row_elements<T>(d_head)) * sizeof(T));
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  return rows;
}

template <typename T>
std::vector<int> heads() {
  return fd::kValuesPerElement<T> == 1 ? std::vector{1, 6, 8, 64} : std::vector{64, 128, 192};
}

}  // namespace

TEST_CASE("the keys of a block lie by dimensions") {
  CHECK(cpu::key_block_of(63) == 32);
  CHECK(cpu::key_block_of(64) == 64);
  std::vector<float> row{1, 2, 3};
  std::vector<float> block(3 * kBlock);
  cpu::store_key<float>(reinterpret_cast<const std::byte*>(row.data()), 3,
                        reinterpret_cast<std::byte*>(block.data()), 5);
  for (std::size_t d = 0; d < 3; ++d) CHECK(block[d * kBlock + 5] == row[d]);
  CHECK(std::count(block.begin(), block.end(), 0.0f) == 3 * kBlock - 3);
}

TEMPLATE_TEST_CASE("keys are stored one by one or as a block, and read again", "", float, fd::f16,
                   fd::q8_0) {
  for (const int d_head : heads<TestType>()) {
    CAPTURE(d_head);
    const std::vector<std::byte> rows = random_rows<TestType>(d_head);
    const std::size_t row = rows.size() / kBlock;
    std::vector<std::byte> block(rows.size()), one_by_one(rows.size()), back(rows.size());
    cpu::store_keys<TestType>(rows.data(), d_head, block.data());
    for (int i = kBlock - 1; i >= 0; --i)
      cpu::store_key<TestType>(&rows[fd::idx(i) * row], d_head, one_by_one.data(), i);
    CHECK(one_by_one == block);
    cpu::load_keys<TestType>(block.data(), d_head, back.data());
    CHECK(back == rows);
    for (int i = 0; i < kBlock; ++i) {
      std::vector<std::byte> key(row);
      cpu::load_key<TestType>(block.data(), i, d_head, key.data());
      CHECK(std::equal(key.begin(), key.end(), &rows[fd::idx(i) * row]));
    }
  }
}

TEMPLATE_TEST_CASE("a key is copied to another place, and its neighbours stay", "", float, fd::f16,
                   fd::q8_0) {
  for (const int d_head : heads<TestType>()) {
    const std::vector<std::byte> rows = random_rows<TestType>(d_head);
    const std::size_t row = rows.size() / kBlock;
    std::vector<std::byte> block(rows.size()), back(rows.size());
    cpu::store_keys<TestType>(rows.data(), d_head, block.data());
    for (const auto& [from, to] : {std::pair{3, 20}, {31, 0}, {16, 15}, {7, 7}}) {
      CAPTURE(d_head, from, to);
      std::vector<std::byte> other = block;
      cpu::copy_key<TestType>(block.data(), from, d_head, other.data(), to);
      cpu::load_keys<TestType>(other.data(), d_head, back.data());
      std::vector<std::byte> expected = rows;
      std::copy_n(&rows[fd::idx(from) * row], row, &expected[fd::idx(to) * row]);
      CHECK(back == expected);
    }
  }
}

TEST_CASE("a block of keys in q8_0 is two panels of a matrix in Q8_0") {
  for (const int d_head : {64, 128, 192}) {
    CAPTURE(d_head);
    const std::vector<std::byte> rows = random_rows<fd::q8_0>(d_head);
    const std::size_t row = rows.size() / kBlock;
    std::vector<std::byte> block(rows.size()), panels(rows.size());
    cpu::store_keys<fd::q8_0>(rows.data(), d_head, block.data());
    for (std::size_t panel = 0; panel < 2; ++panel) {
      cpu::pack_panel(fd::TensorType::kQ8_0, &rows[panel * 16 * row], row, 16, d_head,
                      &panels[panel * panels.size() / 2]);
    }
    CHECK(block == panels);
  }
}
