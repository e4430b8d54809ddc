#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Positions of one part of attention: parts begin at multiples of it, whatever a row sees.
inline constexpr int kPart = 64;

/// First position that a row sees.
FOREDRAFT_HOST_DEVICE constexpr int first_visible(int visible, int window) {
  return window > 0 && visible > window ? visible - window : 0;
}

/// Positions that a row sees: first ones of the text, and those of its window.
struct Visible {
  int sinks;
  int first;  // of the window
  int end;
};
FOREDRAFT_HOST_DEVICE constexpr Visible visible_of(int visible, int window, int sinks) {
  const int first = first_visible(visible, window);
  return {sinks < first ? sinks : first, first, visible};
}

struct AttendPartArgs {
  const RowPlace* rows;  // [n_rows]
  int n_rows;
  const int* nodes;  // of all paths
  const float* q;    // [rows of the pass, n_heads, d_head]
  int n_heads;
  int heads_of_keys;  // that share a head of keys
  int d_head;
  float scale;
  float softcap;  // 0: none
  int window;     // 0: all positions
  int n_parts;    // of the row that sees most
  /// Written [n_rows, n_heads, n_parts, 2 + d_head]: the greatest score, the sum of weights
  /// relative to it, and the sum of values with these weights. Nothing where a row sees no
  /// position of the part.
  float* parts;
  SequenceLayers layers;
};

/// How floats are multiplied with rows in format S by mma(). Values in f16 are factors as they are, and
/// floats are sums of two numbers in f16 then. With all others floats are sums of three numbers in bf16,
/// and so are the values of f32 and q8_0.
template <typename S>
struct Factors {
  static constexpr bool kHalf = std::is_same_v<S, f16>;
  static constexpr int kParts = kHalf ? 2 : 3;                              // of a float
  static constexpr int kPlanes = kHalf || std::is_same_v<S, bf16> ? 1 : 3;  // of a value
  static constexpr int kWords = kHalf ? 1 : 2;  // factors A that hold all parts of a float
  static constexpr int kFours = kInChunk<S> / 4;
  static constexpr float kRaised = kHalf ? 0x1p11f : 1.0f;  // keeps lesser parts within f16

  /// Four numbers.
  struct Pairs {
    std::uint32_t v[2];
  };

  /// Floats as A: rows g are the greater part of a column, rows g + 8 the lesser one, raised. A third
  /// part is the lesser one of a second A.
  template <typename T>
  FOREDRAFT_DEVICE static void factors_of(T& t, const Four& x, Words (&to)[kWords]) {
    Pairs parts[kParts];
    split(t, x, parts);
    to[0] = {{parts[0].v[0], parts[1].v[0], parts[0].v[1], parts[1].v[1]}};
    if constexpr (kWords == 2) to[1] = {{0, parts[2].v[0], 0, parts[2].v[1]}};
  }

  /// Values 4 i .. 4 i + 3 of a chunk.
  template <typename T>
  FOREDRAFT_DEVICE static void planes_of(T& t, const Words& chunk, int i, Pairs (&to)[kPlanes]) {
    if constexpr (kPlanes == 1) {
      to[0] = {{chunk.v[2 * i], chunk.v[2 * i + 1]}};
    } else {
      split(t, four_of<S>(t, chunk, i), to);
    }
  }

  /// Add a product to what becomes the sum of a column: small ones first.
  template <typename T>
  FOREDRAFT_DEVICE static void multiply(T& t, float (&d)[4], const Words (&a)[kWords],
                                        const Pairs (&b)[kPlanes]) {
    if constexpr (kHalf) {
      t.mma_half(d, a[0], b[0].v[0], b[0].v[1]);
    } else {
      t.mma(d, a[1], b[0].v[0], b[0].v[1]);
      FOREDRAFT_UNROLL
      for (int i = kPlanes - 1; i >= 0; --i) t.mma(d, a[0], b[i].v[0], b[i].v[1]);
    }
  }
  /// It, for position or dimension i of the two that a lane has.
  template <typename T>
  FOREDRAFT_DEVICE static float sum_of(T& t, const float (&d)[4], int i) {
    return t.fma(d[2 + i], 1 / kRaised, d[i]);
  }

 private:
  template <typename T>
  FOREDRAFT_DEVICE static void split(T& t, Four x, Pairs (&to)[kParts]) {
    FOREDRAFT_UNROLL
    for (int part = 0; part < kParts; ++part) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float low = x.v[2 * i], high = x.v[2 * i + 1];
        to[part].v[i] = kHalf ? t.half_pair(low, high) : t.bf16_pair(low, high);
      }
      if (part == kParts - 1) break;
      FOREDRAFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float rest = t.add(x.v[i], -value_of(t, to[part].v[i / 2], i % 2));
        x.v[i] = kHalf ? t.mul(rest, kRaised) : rest;
      }
    }
  }
  template <typename T>
  FOREDRAFT_DEVICE static float value_of(T& t, std::uint32_t pair, int upper) {
    if constexpr (kHalf) {
      return t.half_to_float(static_cast<std::uint16_t>(pair >> 16 * upper));
    } else {
      return upper == 0 ? low_of(pair) : high_of(pair);
    }
  }
};

/// Softmax over one part of the positions that a row sees, not divided by its sum yet, for the heads that
/// share a head of keys. A block for each (row, up to kHeads such heads, part). Positions are those of the
/// text, never of the pass: what is added up, and in which order, is the same for a row alone and in a
/// tree.
///
/// A product of tensor cores has room for 8 columns, each of them a (row, head). So rows of a pass share a
/// block, and what it loads, where they see the same positions of a part at the same places, such as
/// committed ones: then the first row's block works for a group of rows, and those of the others end. A
/// column does not depend on the others, so neither do the bits of a row.
///
/// A layer's kernels are more code than a multiprocessor keeps at hand, and an instruction that has to be
/// fetched takes longer than most that it could save. So nothing here is skipped that few meet: columns
/// that are not there are the last again, and so are positions (with weight 0) and chunks of a row.
/// Memory answers late as well: a thread asks for its keys and for its values before it uses either.
template <int kHeads>
struct AttendPart {
  static constexpr const char* kName = "attend_part";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kOfWarp = kPart / kWarps;   // positions
  static constexpr int kColumns = 8;               // of a product
  static constexpr int kRows = kColumns / kHeads;  // that share a block
  static constexpr int kAtOnce = 8;          // chunks that a thread loads: of keys, and of values
  static constexpr int kRound = 16;          // chunks of a row that a warp loads at once
  static constexpr bool kLoadsAhead = true;  // where rows are, which the host says
  static_assert(kOfWarp == 16 && kColumns % kHeads == 0);
  using Args = AttendPartArgs;

  static int shared(int d_head) noexcept {
    return shared_bytes<float>(kColumns * kScores) + shared_bytes<Four>(kWarps * kColumns * kSums) +
           shared_bytes<int>(kPart) + shared_bytes<Words>(2 * kColumns * stride_of(d_head));
  }
  static Grid grid(const Args& a) noexcept {
    return {a.n_rows, a.n_heads / a.heads_of_keys * parts_of(a.heads_of_keys, kHeads), a.n_parts};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.rows + t.block_x());
    const KeyValues& kv = a.layers.of[row.sequence];
    const int part = t.block_z() * kPart;
    const Visible visible = visible_of(row.visible, a.window, kv.sinks);
    const int sinks = max_of(0, min_of(part + kPart, visible.sinks) - part);
    const int begin = max_of(part, visible.first);
    const int n = sinks + max_of(0, min_of(part + kPart, visible.end) - begin);
    const Columns columns = columns_of(t, a, row, part);
    if (n == 0 || columns.rows == 0) return t.wait_for_kernels();  // all threads of the block

    float* const weights = t.template shared<float>(kColumns * kScores);  // scores, at first
    Four* const sums = t.template shared<Four>(kWarps * kColumns * kSums);
    int* const places = t.template shared<int>(kPart);
    Words* const queries = t.template shared<Words>(2 * kColumns * stride_of(a.d_head));
    const int seen = min_of(warp_of(t) * kOfWarp + lane_of(t) % kOfWarp, n - 1);
    const int position = seen < sinks ? part + seen : begin + seen - sinks;
    const int place = kv.ring.place(storage_row(t, row, a.nodes, position));
    if (lane_of(t) < kOfWarp) t.store(places + warp_of(t) * kOfWarp + lane_of(t), place);
    t.sync();
    t.wait_for_kernels();
    const int* const of_warp = places + warp_of(t) * kOfWarp;
    const Places<2> of_keys{
        {t.load(of_warp + lane_of(t) / 4), t.load(of_warp + lane_of(t) / 4 + 8)}};
    const auto of_values = t.load(reinterpret_cast<const Places<4>*>(of_warp + lane_of(t) % 4 * 4));
    const Four query = load_query(t, a, columns, warp_of(t), lane_of(t));
    Words keys[kAtOnce], values[kAtOnce];
    load_chunks(t, a, kv.k, columns.kv, of_keys, lane_of(t) % 4, keys);
    load_chunks(t, a, kv.v, columns.kv, of_values, lane_of(t) / 4, values);
    with_element_of(kv.k.format, [&]<typename K>(Element<K>) {
      store_queries<K>(t, a, columns, query, queries);
      t.sync();
      score<K>(t, a, kv.k, columns.kv, of_keys, keys, columns.n(), queries, weights);
    });
    t.sync();
    FOREDRAFT_ROLLED
    for (int i = warp_of(t); i < columns.n(); i += kWarps) {
      weigh(t, a, n, columns, i, weights + i * kScores);
    }
    t.sync();
    with_element_of(kv.v.format, [&]<typename V>(Element<V>) {
      sum_values<V>(t, a, kv.v, columns, of_values, weights, values, sums);
    });
  }

 private:
  static constexpr int kScores = kPart + 4;     // floats between two columns; no conflicts of banks
  static constexpr int kSums = 2 * kRound + 4;  // fours between two columns, likewise
  static constexpr float kOfQuery = 0x1p-4f;    // queries up to 10^6 are finite in f16

  /// Of a block: (row, head), heads next to each other.
  struct Columns {
    int kv;     // whose keys they read
    int head;   // the first
    int heads;  // at most kHeads
    int row;    // of the launch, the first
    int rows;   // 0: another block has them
    int place;  // of the pass, that of row + lane

    FOREDRAFT_HOST_DEVICE int n() const { return rows * kHeads; }
    /// Of the first row's or behind; heads that are not there are the last again.
    FOREDRAFT_HOST_DEVICE int head_of(int column) const {
      return head + min_of(column % kHeads, heads - 1);
    }
  };
  template <typename T>
  FOREDRAFT_DEVICE static Columns columns_of(T& t, const Args& a, const RowPlace& row, int part) {
    const int blocks = parts_of(a.heads_of_keys, kHeads);
    const int kv = blocks == 1 ? t.block_y() : t.block_y() / blocks;
    const int before = (t.block_y() - kv * blocks) * kHeads;
    Columns columns{.kv = kv,
                    .head = kv * a.heads_of_keys + before,
                    .heads = min_of(a.heads_of_keys - before, kHeads),
                    .row = t.block_x(),
                    .rows = 1,
                    .place = row.row};
    if constexpr (kRows > 1) {
      const int first = t.block_x() / kRows * kRows;
      const int other_row = min_of(first + lane_of(t) % kRows, a.n_rows - 1);
      const RowPlace other = t.load(a.rows + other_row);
      const int same = other.path < 0 ? other.visible : other.size;  // places, as in other rows
      const bool alike = other.sequence == row.sequence && part + kPart <= same &&
                         first_visible(other.visible, a.window) <= part;
      if (t.ballot(!alike) == 0) {
        columns.rows = t.block_x() == first ? min_of(a.n_rows - first, kRows) : 0;
        columns.place = other.row;
      }
    }
    return columns;
  }

  /// What AttendPartArgs::parts has of a column.
  template <typename T>
  FOREDRAFT_DEVICE static float* part_of(T& t, const Args& a, const Columns& columns, int column) {
    const int head = (columns.row + column / kHeads) * a.n_heads + columns.head_of(column);
    return a.parts + product(head * a.n_parts + t.block_z(), 2 + a.d_head);
  }

  /// Fours of a query: whole rounds in every format, and one so that there are no conflicts of banks.
  FOREDRAFT_HOST_DEVICE static int stride_of(int d_head) { return parts_of(d_head, 128) * 32 + 1; }

  /// Of the rows that a lane loads from: positions g and g + 8, or 4t .. 4t+3.
  template <int kN>
  struct alignas(4 * kN) Places {
    int of[kN];
  };

  /// Chunks of kN rows, which a warp shares with other lanes: every kRound * kN / kAtOnce-th one.
  template <int kN, typename T>
  FOREDRAFT_DEVICE static void load_chunks(T& t, const Args& a, const StoredRows& stored, int head,
                                           const Places<kN>& places, int first,
                                           Words (&to)[kAtOnce]) {
    constexpr int kStep = kRound * kN / kAtOnce;
    const int last = stored.chunks(a.d_head) - 1;
    const auto* const rows = stored.row<const std::byte>(head, 0);
    const auto row_of = [&](int i) {
      return rows + idx(places.of[i % kN]) * idx(stored.row_bytes);
    };
    if (stored.aligned()) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int chunk = min_of(first + i / kN * kStep, last);
        to[i] = t.load(reinterpret_cast<const Words*>(row_of(i)) + chunk);
      }
    } else {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int chunk = min_of(first + i / kN * kStep, last);
        to[i] = load_apart(t, stored, row_of(i), chunk);
      }
    }
  }

  /// Four numbers of the query of a warp's column, zeros behind its end. Of no use behind the last column.
  template <typename T>
  FOREDRAFT_DEVICE static Four load_query(T& t, const Args& a, const Columns& columns, int column,
                                          int four) {
    if (column >= columns.n()) return {};
    const int row = t.shuffle(columns.place, column / kHeads);
    const std::size_t at = product(row * a.n_heads + columns.head_of(column), a.d_head);
    return load_elements(t, a.q + at, 4 * four, a.d_head);
  }

  /// @param to  of [Factors::kWords, kColumns, stride_of()]
  template <typename K, typename T>
  FOREDRAFT_DEVICE static void store_query(T& t, const Args& a, Four query, Words* to) {
    using F = Factors<K>;
    if constexpr (F::kHalf) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < 4; ++i) query.v[i] = t.mul(query.v[i], kOfQuery);
    }
    Words factors[F::kWords];
    F::factors_of(t, query, factors);
    FOREDRAFT_UNROLL
    for (int i = 0; i < F::kWords; ++i) {
      t.store(to + i * kColumns * stride_of(a.d_head), factors[i]);
    }
  }

  /// Of all columns, as keys of K are multiplied with. @param query  the four that this thread begins with
  template <typename K, typename T>
  FOREDRAFT_DEVICE static void store_queries(T& t, const Args& a, const Columns& columns,
                                             Four query, Words* queries) {
    const int stride = stride_of(a.d_head);
    int column = warp_of(t), four = lane_of(t);
    FOREDRAFT_ROLLED
    while (column < columns.n()) {
      store_query<K>(t, a, query, queries + column * stride + four);
      four += kWarp;
      if (four >= stride - 1) {
        four = lane_of(t);
        column += kWarps;
      }
      query = load_query(t, a, columns, column, four);
    }
  }

  /// Of a warp's positions in all columns. @param keys  the first of what the thread loads of its rows,
  ///   which are positions g and g + 8
  template <typename K, typename T>
  FOREDRAFT_DEVICE static void score(T& t, const Args& a, const StoredRows& stored, int head,
                                     const Places<2>& of, Words (&keys)[kAtOnce], int n_columns,
                                     const Words* queries, float* scores) {
    using F = Factors<K>;
    const int stride = stride_of(a.d_head);
    const int column = min_of(lane_of(t) / 4, n_columns - 1);
    const Words* query = queries + column * stride + lane_of(t) % 4 * F::kFours;
    const int n_chunks = parts_of(a.d_head, kInChunk<K>);
    float sums[2][4] = {};
    FOREDRAFT_ROLLED
    for (int first = 0; first < n_chunks; first += kRound) {
      if (first > 0) load_chunks(t, a, stored, head, of, first + lane_of(t) % 4, keys);
      float of_round[2][4] = {};  // tensor cores cut sums off, so they get short ones
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAtOnce / 2; ++i) {
        if (i == 2 && first + 8 >= n_chunks) break;
        FOREDRAFT_UNROLL
        for (int four = 0; four < F::kFours; ++four) {
          Words factors[F::kWords];
          FOREDRAFT_UNROLL
          for (int word = 0; word < F::kWords; ++word) {
            const Words* const from = query + word * kColumns * stride;
            factors[word] = t.load(from + (first + 4 * i) * F::kFours + four);
          }
          FOREDRAFT_UNROLL
          for (int row = 0; row < 2; ++row) {
            typename F::Pairs planes[F::kPlanes];
            F::planes_of(t, keys[2 * i + row], four, planes);
            F::multiply(t, of_round[row], factors, planes);
          }
        }
      }
      FOREDRAFT_UNROLL
      for (int i = 0; i < 8; ++i)
        sums[i / 4][i % 4] = t.add(sums[i / 4][i % 4], of_round[i / 4][i % 4]);
    }
    const float scale = F::kHalf ? t.mul(a.scale, 1 / kOfQuery) : a.scale;
    float* const to = scores + lane_of(t) / 4 * kScores + warp_of(t) * kOfWarp + lane_of(t) % 4 * 2;
    FOREDRAFT_UNROLL
    for (int row = 0; row < 2; ++row) {
      const Two dots{
          {t.mul(F::sum_of(t, sums[row], 0), scale), t.mul(F::sum_of(t, sums[row], 1), scale)}};
      t.store(reinterpret_cast<Two*>(to + row * 8), dots);
    }
  }

  /// A warp turns the scores of a column into weights, those behind the last into zeros, and writes the
  /// greatest and the weights' sum.
  template <typename T>
  FOREDRAFT_DEVICE static void weigh(T& t, const Args& a, int n, const Columns& columns, int column,
                                     float* scores) {
    float of[kPart / kWarp];
    float greatest = -kInfinity;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kPart / kWarp; ++i) {
      const int at = i * kWarp + lane_of(t);
      const float score = capped(t, t.load(scores + at), a.softcap);
      of[i] = at < n ? score : -kInfinity;
      greatest = t.max(greatest, of[i]);
    }
    greatest = t.warp_max(greatest);
    float sum = 0;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kPart / kWarp; ++i) {
      const float weight = t.exp(t.add(of[i], -greatest));
      t.store(scores + i * kWarp + lane_of(t), weight);
      sum = t.add(sum, weight);
    }
    sum = t.warp_sum(sum);
    if (lane_of(t) != 0 || column % kHeads >= columns.heads) return;
    float* const part = part_of(t, a, columns, column);
    t.store(part, greatest);
    t.store(part + 1, sum);
  }

  /// Of a lane's column and its positions.
  template <typename V, typename T>
  FOREDRAFT_DEVICE static void load_weights(T& t, int n_columns, const float* weights,
                                            Words (&to)[Factors<V>::kWords]) {
    const int column = min_of(lane_of(t) / 4, n_columns - 1);
    const float* const from =
        weights + column * kScores + warp_of(t) * kOfWarp + lane_of(t) % 4 * 4;
    Factors<V>::factors_of(t, t.load(reinterpret_cast<const Four*>(from)), to);
  }

  /// The weighted sums of all values, round by round. @param values  of the first round
  template <typename V, typename T>
  FOREDRAFT_DEVICE static void sum_values(T& t, const Args& a, const StoredRows& stored,
                                          const Columns& columns, const Places<4>& of,
                                          const float* weights, Words (&values)[kAtOnce],
                                          Four* sums) {
    Words factors[Factors<V>::kWords];
    load_weights<V>(t, columns.n(), weights, factors);
    const int n_chunks = parts_of(a.d_head, kInChunk<V>);
    FOREDRAFT_ROLLED
    for (int first = 0; first < n_chunks; first += kRound) {
      if (first > 0) {
        load_chunks(t, a, stored, columns.kv, of, first + lane_of(t) / 4, values);
        t.sync();  // nobody reads the sums that were here any more
      }
      add_values<V>(t, factors, values, n_chunks - first, columns.n(), sums);
      t.sync();
      add_warps<V>(t, a, columns, first * kInChunk<V>, sums);
    }
  }

  /// Values of a warp's positions, weighted and added up. A lane has one chunk of every 8, of positions
  /// 4t .. 4t+3: two of these make a word. @param n_chunks  from the first on
  /// @param sums  [kWarps, kColumns, kSums] written: see place_of_sum()
  template <typename V, typename T>
  FOREDRAFT_DEVICE static void add_values(T& t, const Words (&weights)[Factors<V>::kWords],
                                          const Words (&values)[kAtOnce], int n_chunks,
                                          int n_columns, Four* sums) {
    using F = Factors<V>;
    Four* const to = sums + (warp_of(t) * kColumns + lane_of(t) / 4) * kSums + lane_of(t) % 4;
    FOREDRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half * 8 >= n_chunks) break;
      FOREDRAFT_UNROLL
      for (int i = 0; i < 2 * F::kFours; ++i) {
        typename F::Pairs planes[4][F::kPlanes];
        FOREDRAFT_UNROLL
        for (int j = 0; j < 4; ++j) F::planes_of(t, values[half * 4 + j], i / 2, planes[j]);
        Four both;
        FOREDRAFT_UNROLL
        for (int upper = 0; upper < 2; ++upper) {
          typename F::Pairs of_two[F::kPlanes];
          FOREDRAFT_UNROLL
          for (int plane = 0; plane < F::kPlanes; ++plane) {
            FOREDRAFT_UNROLL
            for (int j = 0; j < 2; ++j) {
              of_two[plane].v[j] =
                  t.halves(planes[2 * j][plane].v[i % 2], planes[2 * j + 1][plane].v[i % 2], upper);
            }
          }
          float d[4] = {};
          F::multiply(t, d, weights, of_two);
          both.v[2 * upper] = F::sum_of(t, d, 0);
          both.v[2 * upper + 1] = F::sum_of(t, d, 1);
        }
        if (lane_of(t) / 4 < n_columns) t.store(to + (half * 2 * F::kFours + i) * 4, both);
      }
    }
  }

  /// Where dimension d of a round lies in a column of sums, @units floats. They lie as products
  /// leave them: a four for each two dimensions of each two chunks.
  template <typename V>
  FOREDRAFT_HOST_DEVICE static int place_of_sum(int d) {
    const int chunk = d / kInChunk<V>;
    const int pair = chunk / 8 * 2 * Factors<V>::kFours + d % kInChunk<V> / 2;
    return (pair * 4 + chunk % 8 / 2) * 4 + d % 2 * 2 + chunk % 2;
  }

  /// The sums of the warps, in their order. A thread for each dimension. @param first  that of thread 0
  template <typename V, typename T>
  FOREDRAFT_DEVICE static void add_warps(T& t, const Args& a, const Columns& columns, int first,
                                         const Four* sums) {
    const int d = t.thread();
    if (d >= kRound * kInChunk<V> || first + d >= a.d_head) return;
    const float* const from = reinterpret_cast<const float*>(sums) + place_of_sum<V>(d);
    FOREDRAFT_ROLLED
    for (int column = 0; column < columns.n(); ++column) {
      float all = t.load(from + column * kSums * 4);
      FOREDRAFT_UNROLL
      for (int warp = 1; warp < kWarps; ++warp) {
        all = t.add(all, t.load(from + (warp * kColumns + column) * kSums * 4));
      }
      t.store(part_of(t, a, columns, column) + 2 + first + d, all);
    }
  }

  /// Of what is not negative: one instruction.
  FOREDRAFT_HOST_DEVICE static std::size_t product(int a, int b) {
    return std::size_t{static_cast<unsigned>(a)} * static_cast<unsigned>(b);
  }
  FOREDRAFT_HOST_DEVICE static int max_of(int a, int b) { return a > b ? a : b; }
  FOREDRAFT_HOST_DEVICE static int min_of(int a, int b) { return a < b ? a : b; }
};

/// `f.operator()<K>()` with the kernel that serves so many heads of one head of keys.
template <typename F>
void with_attend_part(int heads_of_keys, F&& f) {
  if (heads_of_keys == 1) return f.template operator()<AttendPart<1>>();
  if (heads_of_keys == 2) return f.template operator()<AttendPart<2>>();
  if (heads_of_keys <= 4) return f.template operator()<AttendPart<4>>();
  f.template operator()<AttendPart<8>>();
}

}  // namespace foredraft::inline v0::cuda
