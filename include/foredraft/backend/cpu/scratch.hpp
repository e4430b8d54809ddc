#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/attention.hpp>
#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/intermediate.hpp>
#include <foredraft/backend/cpu/routing.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>

namespace foredraft::inline v0::cpu {

/// Memory aligned to a cache line that only grows. Its contents do not survive growth; new memory
/// is left untouched, so that the worker which writes it first has it near.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&&) = delete;
  ~AlignedBuffer() { release(); }

  /// @errors kOutOfMemory
  void reserve(std::size_t size) {
    if (size <= size_) return;
    release();
    data_ = static_cast<T*>(::operator new(size * sizeof(T), kAlignment, std::nothrow));
    if (data_ == nullptr) {
      throw Error(ErrorCode::kOutOfMemory,
                  "no room for a buffer of " + std::to_string(size * sizeof(T)) + " bytes",
                  "memory for one forward pass", "forward fewer rows at once");
    }
    size_ = size;
  }
  T* data() const noexcept { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};

  void release() noexcept {
    if (data_ != nullptr) ::operator delete(data_, kAlignment);
    data_ = nullptr;
    size_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Normalised rows, the input of some matrix products, in each format that one of the matrices asks
/// for.
struct Inputs {
  static constexpr int kFormats = 3;

  std::byte* memory = nullptr;  // [kFormats] areas, one behind the other
  int n_rows = 0;
  int n_in = 0;

  static std::size_t area(int format, int n_rows, int n_in) noexcept {
    return Activations::bytes(static_cast<ActivationFormat>(format), n_rows, n_in);
  }
  static std::size_t bytes(int n_rows, int n_in) noexcept {
    std::size_t sum = 0;
    for (int format = 0; format < kFormats; ++format) sum += area(format, n_rows, n_in);
    return sum;
  }
  /// As weights of a type take them.
  Activations of(TensorType weights) const noexcept {
    const ActivationFormat format = activation_format(weights);
    std::byte* at = memory;
    for (int before = 0; before < static_cast<int>(format); ++before)
      at += area(before, n_rows, n_in);
    return {.format = format, .n_rows = n_rows, .n_in = n_in, .data = at};
  }
};

/// What the operators of a pass need besides their arguments; reserved before the region begins.
struct Scratch {
  /// Panels that are computed into a tile before it is used up: short enough to find it in the
  /// second level cache.
  static constexpr int kTilePanels = 8;
  static constexpr int kTileColumns = kTilePanels * kPanelRows;
  /// Weights that a worker takes at a time where tiles do not say how many: about a microsecond of
  /// reading, or, with many rows, what stays in the second level cache while they pass over it.
  static constexpr std::size_t kRunBytes = 32 * 1024;
  static constexpr std::size_t kRunBytesOfManyRows = 128 * 1024;
  static_assert(kTileColumns == Scores::kRun, "the head has the maximum of a tile at hand");
  /// Inputs of up to so many values are made by every worker for itself: they take four
  /// microseconds in one format for K-quants, six for scales per 32. Two workers that share them
  /// save half of it, less a barrier and the wait for the slower one. A single row is made by every
  /// worker for itself, however wide.
  static constexpr int kOwnValues = 16384;

  struct Worker {
    AlignedBuffer<float> row;                        // [d_model] one normalised row
    AlignedBuffer<std::byte> inputs;                 // Inputs of few rows
    AlignedBuffer<float> tile;                       // [n_rows, kTileColumns]
    AlignedBuffer<float> attend;                     // [attend_workspace(d_head)]
    Routing routing;                                 // of a mixture, the same for all workers
    AlignedBuffer<float> state;                      // [d_state] of one head
    alignas(64) std::atomic<int> taken[2] = {0, 0};  // runs of its share, see Worker::deal_out
  };

  std::vector<Worker> workers;
  AlignedBuffer<std::byte> inputs;  // Inputs of many rows, made by all workers together
  AlignedBuffer<float> k;           // [n_rows, n_kv_heads * d_head]
  AlignedBuffer<float> v;           // likewise
  AlignedBuffer<float> in;          // [n_rows, d_in] of a recurrent layer
  AlignedBuffer<Best> best;         // [n_workers, n_rows]
  AlignedBuffer<float> scores;      // [n_rows, n_experts]
  AlignedBuffer<float> shared;      // [n_rows, d_model]: what an expert of all rows says
  AlignedBuffer<std::byte> pairs;   // Inputs of the rows of each expert, see group_inputs()
  // An Intermediate, of the result of attention, of a recurrent or of a feed-forward part, whichever
  // is widest; or one for each expert of a mixture.
  AlignedBuffer<float> values;                   // [n_rows, widest or d_model]
  AlignedBuffer<std::byte> quantized;            // [n_rows, widest] in any format
  AlignedBuffer<Intermediate::Written> written;  // [n_blocks(widest)]

  static bool own_inputs(int rows, int n_in) noexcept {
    const int padded = (n_in + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
    return rows <= 1 || idx(rows) * idx(padded) <= kOwnValues;
  }

  /// Bytes that hold the Inputs of every size for which own_inputs() is true.
  static std::size_t own_bytes(int d_model) noexcept {
    return Inputs::bytes(1, std::max(d_model, kOwnValues)) + 64 * Inputs::kFormats;
  }

  Intermediate intermediate(TensorType next, int n_rows, int n_in) const noexcept {
    return {
        values.data(), {activation_format(next), n_rows, n_in, quantized.data()}, written.data()};
  }

  /// The rows of one expert: each group has the room of as many single rows, at least what it needs.
  Inputs group_inputs(const Routing::Group& group, int n_in) const noexcept {
    return {pairs.data() + idx(group.begin) * Inputs::bytes(1, n_in), group.n_rows, n_in};
  }
  /// What an expert of a mixture works out for its rows. @param i  number of the group
  Intermediate group_intermediate(TensorType next, const Routing::Group& group, int i,
                                  int n_in) const noexcept {
    const ActivationFormat format = activation_format(next);
    return {values.data() + idx(group.begin) * idx(n_in),
            {format, group.n_rows, n_in,
             quantized.data() + idx(group.begin) * Activations::bytes(format, 1, n_in)},
            written.data() + idx(i) * idx(Intermediate::n_blocks(n_in))};
  }

  /// @errors kOutOfMemory
  void reserve(const PassShape& shape, int n_workers) {
    const auto rows = idx(shape.n_rows);
    const auto n_pairs = rows * idx(shape.n_used);
    if (workers.empty()) workers = std::vector<Worker>(idx(n_workers));
    for (Worker& worker : workers) {
      worker.row.reserve(idx(shape.d_model));
      worker.inputs.reserve(own_bytes(shape.d_model));
      worker.tile.reserve(rows * kTileColumns);
      worker.attend.reserve(attend_workspace(shape.d_head));
      if (n_pairs > 0) worker.routing.reserve(shape.n_rows, shape.n_experts, shape.n_used);
      worker.state.reserve(idx(shape.d_state));
      for (std::atomic<int>& taken : worker.taken) taken.store(0, std::memory_order_relaxed);
    }
    inputs.reserve(Inputs::bytes(shape.n_rows, shape.d_model));
    k.reserve(area(shape.n_rows, shape.d_kv));
    v.reserve(area(shape.n_rows, shape.d_kv));
    in.reserve(area(shape.n_rows, shape.d_in));
    best.reserve(idx(n_workers) * rows);
    const Dim widest = std::max({int{shape.d_ff}, int{shape.d_q}, int{shape.d_mixed}});
    // Once it is quantized, the product has the room, where a norm follows it.
    const Dim most_values = std::max({int{widest}, int{shape.d_model}, int{shape.d_inputs}});
    values.reserve(std::max(area(shape.n_rows, most_values),
                            n_pairs * idx(std::max(int{shape.d_expert}, int{shape.d_model}))));
    std::size_t most = 0;
    for (int format = 0; format < Inputs::kFormats; ++format) {
      most = std::max({most, Inputs::area(format, shape.n_rows, widest),
                       n_pairs * Inputs::area(format, 1, shape.d_expert)});
    }
    quantized.reserve(most);
    scores.reserve(area(shape.n_rows, shape.n_experts));
    if (shape.d_shared > 0) shared.reserve(area(shape.n_rows, shape.d_model));
    if (n_pairs > 0) pairs.reserve(n_pairs * Inputs::bytes(1, shape.d_model));
    const auto n_blocks = std::max(
        idx(Intermediate::n_blocks(widest)),
        std::min(n_pairs, idx(shape.n_experts)) * idx(Intermediate::n_blocks(shape.d_expert)));
    written.reserve(n_blocks);
    std::uninitialized_value_construct_n(written.data(), n_blocks);  // zeros before every pass
  }
};

}  // namespace foredraft::inline v0::cpu
