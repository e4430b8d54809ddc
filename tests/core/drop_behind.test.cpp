#include <foredraft/core/drop_behind.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <foredraft/io/mapped_file.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/process_memory.hpp"
#include "support/skip.hpp"

namespace fd = foredraft;

namespace {

constexpr std::size_t kSize = 10 * fd::DropBehind::kStep + 4097;  // ends within a page

std::vector<std::byte> some_bytes() {
  std::vector<std::byte> bytes(kSize);
  for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(i * 2654435761U >> 13);
  return bytes;
}

fd::TensorView tensor_of(const fd::MappedFile& file) {
  return {fd::TensorType::kF32, 1, 1, file.bytes(), file.bytes()};
}

/// Read a tensor from front to back. @return the most of its file that was in memory
std::size_t most_in_memory(const fd::TensorView& tensor, const std::vector<std::byte>& expected) {
  const std::size_t before = process_memory("RssFile:").value_or(0);
  std::size_t most = before;
  fd::DropBehind behind;
  constexpr std::size_t kPiece = 100'000;
  for (std::size_t i = 0; i < kSize; i += kPiece) {
    const auto piece = tensor.data.subspan(i, std::min(kPiece, kSize - i));
    if (!std::equal(piece.begin(), piece.end(), expected.data() + i)) FAIL("at " << i);
    behind.read(tensor, piece);
    most = std::max(most, process_memory("RssFile:").value_or(0));
  }
  return most - before;
}

}  // namespace

TEST_CASE("what is dropped can be read again") {
  const TestFolder folder("drop_behind");
  const auto bytes = some_bytes();
  write_bytes(folder.path / "file", bytes);
  const fd::MappedFile file = fd::MappedFile::open(folder.path / "file");
  for (int i = 0; i < 2; ++i) (void)most_in_memory(tensor_of(file), bytes);
  // Parts of any place and size, the first and the last byte among them.
  for (const std::size_t begin : {std::size_t{0}, std::size_t{4095}, kSize / 2, kSize - 1}) {
    fd::drop_pages(file.bytes(), file.bytes().subspan(begin, 1));
    fd::drop_pages(file.bytes(), file.bytes().subspan(begin));
    CHECK(std::equal(bytes.begin(), bytes.end(), file.bytes().begin()));
  }
}

TEST_CASE("memory that is no mapped file is left alone") {
  const auto bytes = some_bytes();
  const fd::TensorView tensor{fd::TensorType::kF32, 1, 1, bytes};
  (void)most_in_memory(tensor, bytes);
  fd::drop_pages(tensor.mapping, tensor.data);
  CHECK(bytes == some_bytes());
}

TEST_CASE("a reader has a few steps of a file in memory, not all of it") {
  if (!process_memory("RssFile:")) return skip("no /proc");
  const TestFolder folder("drop_behind");
  const auto bytes = some_bytes();
  write_bytes(folder.path / "file", bytes);
  const fd::MappedFile file = fd::MappedFile::open(folder.path / "file");
  CHECK(most_in_memory(tensor_of(file), bytes) <= 2 * fd::DropBehind::kStep);
  // Without a mapping to drop from, all of it stays.
  fd::TensorView kept = tensor_of(file);
  kept.mapping = {};
  CHECK(most_in_memory(kept, bytes) >= kSize / 2);
}
