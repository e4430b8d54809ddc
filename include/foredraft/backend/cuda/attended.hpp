#pragma once

#include <foredraft/backend/cuda/activation.hpp>
#include <foredraft/backend/cuda/attention.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// The parts of attention that a row sees, in the order of positions: those of sinks, then those of its window.
struct SeenParts {
  int before;  // with sinks alone
  int first;   // of the window
  int n;

  FOREDRAFT_HOST_DEVICE static SeenParts of(const RowPlace& row, int window, int sinks) {
    const Visible visible = visible_of(row.visible, window, sinks);
    const int first = visible.first / kPart;
    const int of_sinks = parts_of(visible.sinks, kPart);
    const int before = of_sinks < first ? of_sinks : first;
    return {before, first, before + (visible.end - 1) / kPart - first + 1};
  }
  FOREDRAFT_HOST_DEVICE int part(int i) const { return i < before ? i : first + i - before; }
};

struct AttendedArgs {
  const RowPlace* rows;  // [n_rows]
  int n_rows;
  int n_heads;
  int d_head;
  int window;
  int n_parts;
  const float* parts;  // as in AttendPart
  int sinks[kSequences] = {};
};

/// The parts of each (row, head) added up, and divided by the sum of weights.
struct MergeParts {
  static constexpr int kAtOnce = 8;

  /// Values k .. k + 3 of all heads, zeros behind the last. @param i  row of the launch
  template <typename T>
  FOREDRAFT_DEVICE static Four merged(T& t, const AttendedArgs& a, const SeenParts& seen, int i,
                                      int k) {
    Four values = {};
    if (k >= a.n_heads * a.d_head) return values;
    if (a.d_head % 4 == 0) return four(t, a, seen, i, k);
    FOREDRAFT_ROLLED
    for (int j = 0; j < 4 && k + j < a.n_heads * a.d_head; ++j) {
      const float value = one(t, a, seen, i, k + j);
      FOREDRAFT_UNROLL
      for (int to = 0; to < 4; ++to) values.v[to] = to == j ? value : values.v[to];
    }
    return values;
  }

 private:
  FOREDRAFT_DEVICE static const float* parts_of_head(const AttendedArgs& a, int i, int head) {
    return a.parts + (idx(i) * idx(a.n_heads) + idx(head)) * idx(a.n_parts) * idx(2 + a.d_head);
  }

  /// Of heads that are no whole fours.
  template <typename T>
  FOREDRAFT_DEVICE static float one(T& t, const AttendedArgs& a, const SeenParts& seen, int i,
                                    int k) {
    const auto size = idx(2 + a.d_head);
    const int head = k / a.d_head;
    const float* const parts = parts_of_head(a, i, head);
    float greatest = -kInfinity;
    FOREDRAFT_ROLLED
    for (int part = 0; part < seen.n; ++part) {
      greatest = t.max(greatest, t.load(parts + idx(seen.part(part)) * size));
    }
    float value = 0, sum = 0;
    FOREDRAFT_ROLLED
    for (int part = 0; part < seen.n; ++part) {
      const float* const of = parts + idx(seen.part(part)) * size;
      const float weight = t.exp(t.add(t.load(of), -greatest));
      sum = t.fma(weight, t.load(of + 1), sum);
      value = t.fma(weight, t.load(of + 2 + k - head * a.d_head), value);
    }
    return t.divide(value, sum);
  }

  /// Of one head: asks for all parts of a short text at once.
  template <typename T>
  FOREDRAFT_DEVICE static Four four(T& t, const AttendedArgs& a, const SeenParts& seen, int i,
                                    int k) {
    const auto size = idx(2 + a.d_head);
    const int head = k / a.d_head;
    const int d = k - head * a.d_head;
    const float* const parts = parts_of_head(a, i, head);
    const auto pair = [&](int part, int at) {
      return t.load(reinterpret_cast<const Two*>(parts + idx(seen.part(part)) * size + at));
    };
    Two of[kAtOnce][3];
    const auto load = [&](int begin) {
      FOREDRAFT_UNROLL
      for (int p = 0; p < kAtOnce; ++p) {
        if (begin + p >= seen.n) break;
        of[p][0] = pair(begin + p, 0);
        of[p][1] = pair(begin + p, 2 + d);
        of[p][2] = pair(begin + p, 4 + d);
      }
    };
    load(0);
    float greatest = -kInfinity;
    FOREDRAFT_UNROLL
    for (int p = 0; p < kAtOnce; ++p) {
      if (p < seen.n) greatest = t.max(greatest, of[p][0].v[0]);
    }
    for (int part = kAtOnce; part < seen.n; ++part) {
      greatest = t.max(greatest, t.load(parts + idx(seen.part(part)) * size));
    }
    Four values = {};
    float sum = 0;
    FOREDRAFT_ROLLED
    for (int begin = 0; begin < seen.n; begin += kAtOnce) {
      if (begin > 0) load(begin);
      FOREDRAFT_UNROLL
      for (int p = 0; p < kAtOnce; ++p) {
        if (begin + p >= seen.n) break;
        const float weight = t.exp(t.add(of[p][0].v[0], -greatest));
        sum = t.fma(weight, of[p][0].v[1], sum);
        FOREDRAFT_UNROLL
        for (int j = 0; j < 4; ++j) {
          values.v[j] = t.fma(weight, of[p][1 + j / 2].v[j % 2], values.v[j]);
        }
      }
    }
    FOREDRAFT_UNROLL
    for (int j = 0; j < 4; ++j) values.v[j] = t.divide(values.v[j], sum);
    return values;
  }
};

/// What attention says of each row, as rows of an Operand: for the product behind it.
struct PrepareAttended {
  static constexpr const char* kName = "prepare_attended";
  static constexpr int kThreads = 128;
  static constexpr bool kLoadsAhead = true;  // what the host says
  struct Args {
    AttendedArgs from;
    const float* gate;  // [rows of the pass, n_heads, d_head] or null: times its sigmoid
    OperandRows to;     // of the pass
  };

  static Grid grid(const Args& a) noexcept {
    return {a.from.n_rows, parts_of(Operand::parts_in(a.to.n_in) * 4, kThreads)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.from.rows + t.block_x());
    const SeenParts seen = SeenParts::of(row, a.from.window, a.from.sinks[row.sequence]);
    const int four = t.block_y() * kThreads + t.thread();
    t.wait_for_kernels();
    Four values = MergeParts::merged(t, a.from, seen, t.block_x(), 4 * four);
    if (a.gate != nullptr) {
      const int n_in = a.to.n_in;
      const Four gate = load_elements(t, a.gate + idx(row.row) * idx(n_in), 4 * four, n_in);
      FOREDRAFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        values.v[i] = t.mul(activated(t, Activation::kSigmoid, gate.v[i]), values.v[i]);
      }
    }
    a.to.put(t, row.row, four, values);
  }
};

}  // namespace foredraft::inline v0::cuda
