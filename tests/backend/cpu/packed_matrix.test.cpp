#include <foredraft/backend/cpu/packed_matrix.hpp>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/error.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;
using kernels_under_test::columns_of;
using kernels_under_test::FileMatrix;
using kernels_under_test::kTypes;
using kernels_under_test::random_matrix;

namespace {

/// Rows of the packed matrix that differ from the file's in any bit.
std::size_t differing_rows(const FileMatrix& file, const cpu::PackedMatrix& packed) {
  std::vector<float> expected(file.n_in);
  std::vector<float> found(file.n_in);
  std::size_t n_wrong = 0;
  for (std::size_t n = 0; n < file.n_out; ++n) {
    fd::dequantize_row(file.type, file.bytes.data() + n * file.row_size(), file.n_in,
                       expected.data());
    packed.dequantize_row(static_cast<int>(n), found.data());
    bool same = true;
    for (std::size_t k = 0; k < file.n_in; ++k) {
      same = same &&
             std::bit_cast<std::uint32_t>(expected[k]) == std::bit_cast<std::uint32_t>(found[k]);
    }
    if (!same) ++n_wrong;
  }
  return n_wrong;
}

}  // namespace

TEST_CASE("packing loses nothing: rows come back bit for bit") {
  for (const fd::TensorType type : kTypes) {
    for (const std::size_t n_in : columns_of(type)) {
      for (const std::size_t n_out : {std::size_t{1}, std::size_t{16}, std::size_t{37}}) {
        CAPTURE(fd::layout_of(type)->name, n_in, n_out);
        const FileMatrix file = random_matrix(type, n_out, n_in, 11);
        auto packed = cpu::PackedMatrix::allocate(type, n_out, n_in);
        packed.pack_panels(file.view(), 0, packed.n_panels());
        CHECK(differing_rows(file, packed) == 0);
      }
    }
  }
}

TEST_CASE("extreme scales survive packing") {
  for (const fd::TensorType type : kTypes) {
    if (fd::quant_geometry(type).elements == 0) continue;
    CAPTURE(fd::layout_of(type)->name);
    FileMatrix file = random_matrix(type, 16, 256, 3);
    // Zero, minus zero, the least subnormal, the greatest finite number.
    const std::uint16_t extremes[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff};
    std::size_t next = 0;
    kernels_under_test::set_scales(file, [&] { return extremes[next++ % 5]; });
    auto packed = cpu::PackedMatrix::allocate(type, 16, 256);
    packed.pack_panels(file.view(), 0, 1);
    CHECK(differing_rows(file, packed) == 0);
  }
}

TEST_CASE("panels can be packed by several threads") {
  const FileMatrix file = random_matrix(fd::TensorType::kQ4_K, 100, 512, 5);
  auto packed = cpu::PackedMatrix::allocate(file.type, file.n_out, file.n_in);
  const int half = packed.n_panels() / 2;
  std::thread other([&] { packed.pack_panels(file.view(), 0, half); });
  packed.pack_panels(file.view(), half, packed.n_panels());
  other.join();
  CHECK(differing_rows(file, packed) == 0);
}

TEST_CASE("geometry and memory of a matrix") {
  const auto packed = cpu::PackedMatrix::allocate(fd::TensorType::kQ4_K, 37, 512);
  CHECK(packed.n_out() == 37);
  CHECK(packed.n_in() == 512);
  CHECK(packed.n_panels() == 3);
  CHECK(packed.type() == fd::TensorType::kQ4_K);
  CHECK(packed.bytes() == 3u * 2u * 2368u);
  CHECK(packed.panels().n_blocks == 2);
  CHECK(reinterpret_cast<std::uintptr_t>(packed.panels().data) % 64 == 0);

  // Above 2 MB the memory begins at a huge page.
  const auto large = cpu::PackedMatrix::allocate(fd::TensorType::kF32, 1024, 1024);
  CHECK(reinterpret_cast<std::uintptr_t>(large.panels().data) % (2u << 20) == 0);
}

TEST_CASE("a matrix is moved, not copied") {
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<cpu::PackedMatrix>);
  const FileMatrix file = random_matrix(fd::TensorType::kQ8_0, 16, 64, 5);
  auto first = cpu::PackedMatrix::allocate(file.type, 16, 64);
  first.pack_panels(file.view(), 0, 1);
  cpu::PackedMatrix second = std::move(first);
  CHECK(differing_rows(file, second) == 0);
  cpu::PackedMatrix third;
  CHECK(third.n_panels() == 0);
  third = std::move(second);
  CHECK(differing_rows(file, third) == 0);
}

TEST_CASE("a view reads panels where they lie and keeps them alive") {
  const FileMatrix file = random_matrix(fd::TensorType::kQ5_0, 37, 160, 9);
  auto packed = std::make_shared<cpu::PackedMatrix>(
      cpu::PackedMatrix::allocate(file.type, file.n_out, file.n_in));
  packed->pack_panels(file.view(), 0, packed->n_panels());
  const std::byte* const where = packed->panels().data;
  const std::span<const std::byte> panels(where, packed->bytes());
  CHECK(cpu::PackedMatrix::bytes_of(file.type, 37, 160) == panels.size());

  const std::weak_ptr<cpu::PackedMatrix> alive = packed;
  auto view = cpu::PackedMatrix::view(file.type, 37, 160, panels, std::move(packed));
  cpu::PackedMatrix moved = std::move(view);
  view = cpu::PackedMatrix();
  CHECK(!alive.expired());
  CHECK(moved.panels().data == where);
  CHECK(moved.bytes() == panels.size());
  CHECK(differing_rows(file, moved) == 0);
  // It is somebody else's memory.
  CHECK_THROWS_AS(moved.pack_panels(file.view(), 0, 1), fd::Error);

  const auto refused = [&](std::span<const std::byte> memory, std::size_t n_out) {
    CHECK_THROWS_AS(cpu::PackedMatrix::view(file.type, n_out, 160, memory, nullptr), fd::Error);
  };
  refused(panels, 16);
  refused(panels.first(panels.size() - 1), 37);
  refused(panels.subspan(64), 37);
  std::vector<std::byte> room(panels.size() + 128);
  const auto address = reinterpret_cast<std::uintptr_t>(room.data());
  refused(std::span<const std::byte>(room).subspan(64 - address % 64 + 8, panels.size()), 37);
  moved = cpu::PackedMatrix();
  CHECK(alive.expired());
}

TEST_CASE("impossible matrices are refused") {
  const auto code_of = [](auto&& action) {
    try {
      action();
    } catch (const fd::Error& error) {
      return error.code();
    }
    return fd::ErrorCode::kIo;
  };
  using cpu::PackedMatrix;
  const auto kShape = fd::ErrorCode::kShapeMismatch;
  CHECK(code_of([] { (void)PackedMatrix::allocate(fd::TensorType::kQ4_K, 16, 128); }) == kShape);
  CHECK(code_of([] { (void)PackedMatrix::allocate(fd::TensorType::kQ4_K, 0, 256); }) == kShape);
  CHECK(code_of([] { (void)PackedMatrix::allocate(fd::TensorType::kF32, 16, 0); }) == kShape);
  CHECK(code_of([] { (void)PackedMatrix::allocate(static_cast<fd::TensorType>(99), 16, 256); }) ==
        kShape);
  CHECK(code_of([] {
          (void)PackedMatrix::allocate(fd::TensorType::kF32, std::size_t{1} << 40, 16);
        }) == kShape);

  auto packed = PackedMatrix::allocate(fd::TensorType::kQ8_0, 32, 64);
  FileMatrix file = random_matrix(fd::TensorType::kQ8_0, 32, 64, 1);
  CHECK(code_of([&] { packed.pack_panels(file.view(), 0, 3); }) == kShape);
  CHECK(code_of([&] {
          packed.pack_panels(random_matrix(fd::TensorType::kQ4_0, 32, 64, 1).view(), 0, 1);
        }) == kShape);
  CHECK(code_of([&] {
          packed.pack_panels(random_matrix(fd::TensorType::kQ8_0, 32, 32, 1).view(), 0, 1);
        }) == kShape);
  file.bytes.pop_back();
  CHECK(code_of([&] { packed.pack_panels(file.view(), 0, 1); }) == kShape);
}
