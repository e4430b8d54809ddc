#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <foredraft/backend/cpu/panel_block.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cpu {

/// A weight matrix in panels, the one layout that all kernels read (see PanelLayout). Owns its
/// memory.
///
/// Nothing is lost: dequantize_row gives the file's values bit for bit, so one matrix can be both
/// embedding table and output head.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  /// Reserve memory, without touching it: the thread that packs a panel gets the page near itself.
  /// @errors kShapeMismatch where n_in is not a multiple of the format's block or a size does not
  /// fit, kOutOfMemory
  static PackedMatrix allocate(TensorType type, std::size_t n_out, std::size_t n_in) {
    constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<int>::max()) - 1024;
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
    PackedMatrix matrix;
    PackedPanels& panels = matrix.panels_;
    panels.type = type;
    panels.n_out = static_cast<int>(n_out);
    panels.n_in = static_cast<int>(n_in);
    panels.n_panels = (panels.n_out + kPanelRows - 1) / kPanelRows;
    panels.n_blocks = (panels.n_in + layout.block_k - 1) / layout.block_k;
    panels.panel_bytes = static_cast<std::size_t>(panels.n_blocks) * layout.bytes;
    const auto bytes = checked_mul(panels.panel_bytes, static_cast<std::size_t>(panels.n_panels));
    if (bytes) matrix.bytes_ = *bytes;
    matrix.memory_ = bytes ? reserve(*bytes) : nullptr;
    if (matrix.memory_ == nullptr) {
      throw Error(ErrorCode::kOutOfMemory,
                  bytes ? "no room for " + std::to_string(*bytes) + " bytes of weights"
                        : "a size that overflows",
                  "memory for the whole model", "use a smaller model or a smaller quantization");
    }
    panels.data = matrix.memory_;
    return matrix;
  }

  ~PackedMatrix() {
    if (memory_ != nullptr) ::operator delete(memory_, alignment(bytes_));
  }
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
  const PackedPanels& panels() const noexcept { return panels_; }

  /// Pack the output rows of some panels; rows beyond n_out become zeros. Different panels may be
  /// packed by different threads at the same time.
  /// @shape source [n_out, n_in] of the same type
  /// @cost about one pass over the source; no allocation
  /// @errors kShapeMismatch where source is another matrix than allocate() was asked for
  void pack_panels(const TensorView& source, int panel_begin, int panel_end) {
    const std::size_t row_size =
        row_bytes(panels_.type, static_cast<std::size_t>(panels_.n_in)).value_or(0);
    if (source.type != panels_.type || source.n_out != static_cast<std::size_t>(panels_.n_out) ||
        source.n_in != static_cast<std::size_t>(panels_.n_in) ||
        source.data.size() / (row_size == 0 ? 1 : row_size) < source.n_out || panel_begin < 0 ||
        panel_end > panels_.n_panels) {
      throw Error(
          ErrorCode::kShapeMismatch,
          "a source of " + std::to_string(source.n_out) + " x " + std::to_string(source.n_in) +
              ", " + std::to_string(source.data.size()) + " bytes",
          "a matrix of " + std::to_string(panels_.n_out) + " x " + std::to_string(panels_.n_in) +
              ", " + std::to_string(row_size) + " bytes a row");
    }
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      std::byte* destination = memory_ + static_cast<std::size_t>(panel) * panels_.panel_bytes;
      std::memset(destination, 0, panels_.panel_bytes);
      const int n_rows = std::min(kPanelRows, panels_.n_out - panel * kPanelRows);
      for (int row = 0; row < n_rows; ++row) {
        const auto n = static_cast<std::size_t>(panel * kPanelRows + row);
        pack_row(panels_.type, source.data.data() + n * row_size, panels_.n_in, row, destination);
      }
    }
  }

  /// One output row as floats, exactly the file's values.
  /// @shape out [n_in]
  void dequantize_row(int row, float* out) const noexcept {
    const std::byte* panel =
        memory_ + static_cast<std::size_t>(row / kPanelRows) * panels_.panel_bytes;
    unpack_row(panels_.type, panel, panels_.n_in, row % kPanelRows, out);
  }

 private:
  /// A matrix above this size gets huge pages, which spares it most address translations.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  static std::align_val_t alignment(std::size_t bytes) noexcept {
    return std::align_val_t{bytes >= kHugePage ? kHugePage : 64};
  }

  static std::byte* reserve(std::size_t bytes) noexcept {
    void* memory = ::operator new(bytes, alignment(bytes), std::nothrow);
#if defined(__linux__)
    if (memory != nullptr && bytes >= kHugePage) {
      // A hint: where it is refused, nothing but speed is lost.
      (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    }
#endif
    return static_cast<std::byte*>(memory);
  }

  void swap(PackedMatrix& other) noexcept {
    std::swap(panels_, other.panels_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  PackedPanels panels_;
  std::byte* memory_ = nullptr;  // [n_panels, n_blocks, panel_layout(type).bytes]
  std::size_t bytes_ = 0;
};

}  // namespace foredraft::inline v0::cpu
