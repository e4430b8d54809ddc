#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/checksum.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf.hpp>

namespace foredraft::inline v0 {

/// Tells models apart, in the time it takes to look at a few pages of each tensor: a checksum of the
/// header, of the size, and of the first 4 KiB of every tensor. Files of one model in two formats are
/// two models, as their weights are.
/// @cost O(header + tensors) @errors as Gguf::view
inline std::uint64_t model_fingerprint(const Gguf& file) {
  constexpr std::size_t kSample = 4096;
  std::vector<std::uint64_t> sums = {checksum(file.header_bytes()), file.file_size()};
  for (const auto& tensor : file.tensors()) {
    const std::span<const std::byte> data = tensor.data;
    sums.push_back(checksum(data.first(std::min(data.size(), kSample))));
  }
  return checksum(std::as_bytes(std::span(sums)));
}

}  // namespace foredraft::inline v0
