#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/panel_block.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/backend/cpu/weight_memory.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/checksum.hpp>
#include <foredraft/core/drop_behind.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cpu {

/// A weight matrix in panels, the one layout that all kernels read (see PanelLayout). Owns a share
/// of the memory that its panels lie in.
///
/// Nothing is lost: dequantize_row gives the file's values bit for bit, so one matrix can be both
/// embedding table and output head.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  /// Reserve memory, without touching it: the thread that packs a panel gets the page near itself.
  /// @errors kShapeMismatch where n_in is not a multiple of the format's block or a size does not
  /// fit, kOutOfMemory
  static PackedMatrix allocate(TensorType type, std::size_t n_out, std::size_t n_in,
                               WeightMemory& memory) {
    PackedMatrix matrix(type, n_out, n_in);
    WeightMemory::Piece piece = memory.take(matrix.bytes_);
    if (piece.data == nullptr) throw no_room(std::to_string(matrix.bytes_) + " bytes of weights");
    matrix.memory_ = piece.data;
    matrix.panels_.data = piece.data;
    matrix.keeper_ = std::move(piece.keeper);
    return matrix;
  }
  /// The same in memory of its own.
  static PackedMatrix allocate(TensorType type, std::size_t n_out, std::size_t n_in) {
    WeightMemory memory(0);
    return allocate(type, n_out, n_in, memory);
  }

  /// Panels that were packed before, e.g. in a mapped file. They are read in place.
  /// @param keeper  holds the memory; released with the matrix
  /// @errors kShapeMismatch also where the memory has another size, or an address that is no
  /// multiple of 64
  static PackedMatrix view(TensorType type, std::size_t n_out, std::size_t n_in,
                           std::span<const std::byte> panels, std::shared_ptr<const void> keeper) {
    PackedMatrix matrix(type, n_out, n_in);
    if (panels.size() != matrix.bytes_ ||
        reinterpret_cast<std::uintptr_t>(panels.data()) % kLine != 0) {
      throw Error(ErrorCode::kShapeMismatch,
                  "panels of " + std::to_string(panels.size()) + " bytes",
                  std::to_string(matrix.bytes_) + " bytes at a multiple of 64");
    }
    matrix.panels_.data = panels.data();
    matrix.keeper_ = std::move(keeper);
    return matrix;
  }

  /// Size of the panels of a matrix. @errors as allocate()
  static std::size_t bytes_of(TensorType type, std::size_t n_out, std::size_t n_in) {
    return PackedMatrix(type, n_out, n_in).bytes_;
  }

  /// The layout of all formats in one number: what packed bytes mean in this version, as far as
  /// constants can say it.
  static std::uint64_t layout() {
    std::vector<std::uint64_t> numbers{kPanelRows, kUnitBytes};
    for (std::uint32_t number = 0; number < 64; ++number) {
      const auto type = static_cast<TensorType>(number);
      if (!layout_of(type)) continue;
      const PanelLayout p = panel_layout(type);
      for (const int value : {p.block_k, p.sub_k, p.low_bits, p.high_bits, p.offset}) {
        numbers.push_back(static_cast<std::uint64_t>(value));
      }
      numbers.insert(numbers.end(), {number, p.d, p.m, p.scales, p.mins, p.low, p.high, p.bytes});
    }
    return checksum(std::as_bytes(std::span(numbers)));
  }

  ~PackedMatrix() = default;
  PackedMatrix(PackedMatrix&& other) noexcept { swap(other); }
  PackedMatrix& operator=(PackedMatrix&& other) noexcept {
    PackedMatrix(std::move(other)).swap(*this);
    return *this;
  }
  PackedMatrix(const PackedMatrix&) = delete;
  PackedMatrix& operator=(const PackedMatrix&) = delete;

  int n_out() const noexcept { return panels_.n_out; }
  int n_in() const noexcept { return panels_.n_in; }
  int n_panels() const noexcept { return panels_.n_panels; }
  TensorType type() const noexcept { return panels_.type; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::span<const std::byte> packed() const noexcept { return {panels_.data, bytes_}; }
  const PackedPanels& panels() const noexcept { return panels_; }

  /// Pack the output rows of some panels; rows beyond n_out become zeros. Different panels may be
  /// packed by different threads at the same time.
  /// @shape source [n_out, n_in] of the same type
  /// @cost about one pass over the source; no allocation
  /// @errors kShapeMismatch where source is another matrix than allocate() was asked for, or where
  /// the panels are those of a view()
  void pack_panels(const TensorView& source, int panel_begin, int panel_end) {
    const std::size_t row_size = row_bytes(panels_.type, idx(panels_.n_in)).value_or(0);
    if (source.type != panels_.type || source.n_out != idx(panels_.n_out) ||
        source.n_in != idx(panels_.n_in) ||
        source.data.size() / (row_size == 0 ? 1 : row_size) < source.n_out || panel_begin < 0 ||
        panel_end > panels_.n_panels || memory_ == nullptr) {
      throw Error(
          ErrorCode::kShapeMismatch,
          "a source of " + std::to_string(source.n_out) + " x " + std::to_string(source.n_in) +
              ", " + std::to_string(source.data.size()) + " bytes",
          "a matrix of " + std::to_string(panels_.n_out) + " x " + std::to_string(panels_.n_in) +
              ", " + std::to_string(row_size) + " bytes a row");
    }
    DropBehind behind;
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      const int n_rows = std::min(kPanelRows, panels_.n_out - panel * kPanelRows);
      const auto rows =
          source.data.subspan(idx(panel * kPanelRows) * row_size, idx(n_rows) * row_size);
      pack_panel(panels_.type, rows.data(), row_size, n_rows, panels_.n_in,
                 memory_ + idx(panel) * panels_.panel_bytes);
      behind.read(source, rows);
    }
  }

  /// One output row as floats, exactly the file's values.
  /// @shape out [n_in]
  void dequantize_row(int row, float* out) const noexcept {
    const std::byte* panel = panels_.data + idx(row / kPanelRows) * panels_.panel_bytes;
    unpack_row(panels_.type, panel, panels_.n_in, row % kPanelRows, out);
  }

 private:
  /// Geometry without memory.
  PackedMatrix(TensorType type, std::size_t n_out, std::size_t n_in) {
    constexpr auto kMax = idx(std::numeric_limits<int>::max()) - 1024;
    const auto file_layout = layout_of(type);
    if (!file_layout || !row_bytes(type, n_in) || n_in == 0 || n_out == 0 || n_in > kMax ||
        n_out > kMax) {
      throw Error(ErrorCode::kShapeMismatch,
                  "a matrix of " + std::to_string(n_out) + " x " + std::to_string(n_in),
                  file_layout ? "positive sizes below 2^31, columns a multiple of " +
                                    std::to_string(file_layout->elements) + " for " +
                                    std::string(file_layout->name)
                              : "a known storage format");
    }
    const PanelLayout layout = panel_layout(type);
    panels_.type = type;
    panels_.n_out = static_cast<int>(n_out);
    panels_.n_in = static_cast<int>(n_in);
    panels_.n_panels = (panels_.n_out + kPanelRows - 1) / kPanelRows;
    panels_.n_blocks = (panels_.n_in + layout.block_k - 1) / layout.block_k;
    panels_.panel_bytes = idx(panels_.n_blocks) * layout.bytes;
    const auto bytes = checked_mul(panels_.panel_bytes, idx(panels_.n_panels));
    if (!bytes) throw no_room("a size that overflows");
    bytes_ = *bytes;
  }

  static Error no_room(const std::string& what) {
    return Error(ErrorCode::kOutOfMemory, "no room for " + what, "memory for the whole model",
                 "use a smaller model or a smaller quantization");
  }

  void swap(PackedMatrix& other) noexcept {
    std::swap(panels_, other.panels_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(keeper_, other.keeper_);
  }

  PackedPanels panels_;          // data: [n_panels, n_blocks, panel_layout(type).bytes]
  std::byte* memory_ = nullptr;  // the same, where it may be written: not that of a view()
  std::size_t bytes_ = 0;
  std::shared_ptr<const void> keeper_;  // of the memory
};

}  // namespace foredraft::inline v0::cpu
