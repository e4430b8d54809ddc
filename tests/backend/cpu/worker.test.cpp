#include <foredraft/backend/cpu/worker.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "backend/cpu/worker_cases.hpp"
#include "backend/layer_over.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"
#include "support/instruction_sets.hpp"
#include "support/runs.hpp"

// Each operator against the Reference. A bound on the difference follows from the format: inputs
// rounded to 8 bits are wrong by at most max|x| / 254 each, so a product by at most that times the
// sum of |w|. Float formats round only sums.

namespace fd = foredraft;
using fd::TensorType;
using worker_cases::Exact;
using worker_cases::for_each_case;
using worker_cases::Pair;

namespace {

/// Six standard deviations of an output's error where inputs up to `greatest` are rounded to 8
/// bits, each by its own amount; for float weights what sums of their products may lose.
double likely_bound(const Exact& w, bool floats, Eigen::Index n, double greatest) {
  const double norm = w.row(n).cast<double>().norm();
  if (floats) return 1e-5 * norm * std::sqrt(static_cast<double>(w.cols())) * greatest;
  return 6 * norm * greatest / (127 * std::sqrt(12.0));
}

double greatest(const float* x, std::size_t n) {
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::fmax(most, std::abs(static_cast<double>(x[i])));
  return most;
}

/// A row as its product meets it: rms 1 times the weights.
Eigen::VectorXd normalised(const float* x, const std::vector<float>& norm) {
  const auto n = static_cast<Eigen::Index>(norm.size());
  const Eigen::VectorXd row = Eigen::Map<const Eigen::VectorXf>(x, n).cast<double>();
  const Eigen::VectorXd weights = Eigen::Map<const Eigen::VectorXf>(norm.data(), n).cast<double>();
  return row.cwiseProduct(weights) / std::sqrt(row.squaredNorm() / static_cast<double>(n) + 1e-5);
}

}  // namespace

TEST_CASE("embed gives the file's values times the scale") {
  for_each_case([](fd::Cpu& cpu, TensorType type, int n_rows) {
    const Pair table(cpu, type, 50, 256, 1);
    std::vector<fd::TokenId> tokens;
    for (int row = 0; row < n_rows; ++row) tokens.push_back(row * 31 % 50);
    std::vector<float> x(fd::idx(n_rows) * 256);
    std::vector<float> expected(x.size());
    fd::Reference reference;
    cpu.run({.n_rows = n_rows, .d_model = 256, .d_head = 16}, [&](auto& worker) noexcept {
      worker.embed(fd::EmbedArgs<fd::cpu::Worker>{&table.packed, tokens, 16.0f, x.data()});
    });
    reference.run({}, [&](auto& worker) noexcept {
      worker.embed(
          fd::EmbedArgs<fd::Reference::Worker>{&table.exact, tokens, 16.0f, expected.data()});
    });
    CHECK(x == expected);
  });
}

TEST_CASE("attend adds the product of wo with what was attended") {
  // One position, so that attention is its value: the mean of nothing else.
  constexpr int kHeads = 8;
  constexpr int kHead = 96;  // heads end within a block of 256 values
  constexpr auto kWidth = fd::idx(kHeads * kHead);
  for_each_case([](fd::Cpu& cpu, TensorType type, int n_rows) {
    const Pair wo(cpu, type, 72, kWidth, 2);  // 72 is no multiple of a panel
    const auto n = fd::idx(n_rows);
    const std::vector<float> q = mini::normals(n * kWidth, 3);
    std::vector<float> v = mini::normals(n * kWidth, 3);  // [head, row, dimension]
    LayerOver rows(v.data(), v.data(), kHead, n_rows, 0, kHeads);
    const std::vector kv = rows.layers();
    std::vector<std::int32_t> path(n);
    std::vector<std::int32_t> path_begin(n + 1);
    for (std::size_t i = 0; i < n; ++i) {
      path[i] = static_cast<std::int32_t>(i);
      path_begin[i + 1] = static_cast<std::int32_t>(i + 1);
    }
    const std::vector<fd::SequenceRows> sequences{{.first_row = 0,
                                                   .n_rows = n_rows,
                                                   .first_node = 0,
                                                   .size = 0,
                                                   .path = path,
                                                   .path_begin = path_begin}};
    std::vector<float> x = mini::normals(n * 72, 4);
    std::vector<float> expected = x;
    const fd::PassShape shape{.n_rows = n_rows,
                              .d_model = 72,
                              .d_q = kHeads * kHead,
                              .d_kv = kHeads * kHead,
                              .d_head = kHead};
    const auto run = [&](auto& backend, const auto& matrix, std::vector<float>& sum) {
      backend.run(shape, [&]<typename W>(W& worker) noexcept {
        worker.attend(fd::AttendArgs<W, fd::RowsIn<float>>{
            q.data(), n_rows, kHeads, kHeads, kHead, 1.0f, sequences, kv, &matrix, sum.data()});
      });
    };
    run(cpu, wo.packed, x);
    fd::Reference reference;
    run(reference, wo.exact, expected);
    int wrong = 0;
    const double most = greatest(v.data(), v.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      wrong += !(std::abs(x[i] - expected[i]) <= wo.bound(static_cast<Eigen::Index>(i % 72), most));
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("feed-forward up to its last product") {
  for (const fd::Activation activation : {fd::Activation::kSilu, fd::Activation::kGeluTanh}) {
    for_each_case([&](fd::Cpu& cpu, TensorType type, int n_rows) {
      const Pair gate(cpu, type, 300, 512, 5);
      const Pair up(cpu, TensorType::kQ8_0, 300, 512, 6);
      const Pair down = Pair::identity(cpu, 512, 300);
      const auto n = fd::idx(n_rows);
      const std::vector<float> x = mini::normals(n * 512, 7, 3.0f);
      const std::vector<float> norm = mini::normals(512, 8);
      std::vector<float> sum = x;
      std::vector<float> expected = x;
      fd::Reference reference;
      cpu.run({.n_rows = n_rows, .d_model = 512, .d_ff = 300, .d_head = 16},
              [&](auto& worker) noexcept {
                worker.feed_forward(fd::FeedForwardArgs<fd::cpu::Worker>{sum.data(),
                                                                         n_rows,
                                                                         {norm.data(), 1e-5f},
                                                                         activation,
                                                                         &gate.packed,
                                                                         &up.packed,
                                                                         &down.packed});
              });
      reference.run({}, [&](auto& worker) noexcept {
        worker.feed_forward(fd::FeedForwardArgs<fd::Reference::Worker>{expected.data(),
                                                                       n_rows,
                                                                       {norm.data(), 1e-5f},
                                                                       activation,
                                                                       &gate.exact,
                                                                       &up.exact,
                                                                       &down.exact});
      });
      const bool float_gate = fd::quant_geometry(type).elements == 0;
      int wrong = 0;
      for (int row = 0; row < n_rows; ++row) {
        const Eigen::VectorXd in = normalised(&x[fd::idx(row) * 512], norm);
        const double most = in.cwiseAbs().maxCoeff();
        const Eigen::VectorXd gates = gate.exact.cast<double>() * in;
        const Eigen::VectorXd ups = up.exact.cast<double>() * in;
        for (Eigen::Index i = 0; i < 512; ++i) {
          const auto at = fd::idx(row * 512 + i);
          if (i >= 300) {
            wrong += sum[at] != x[at];
            continue;
          }
          const double g_error = likely_bound(gate.exact, float_gate, i, most);
          const double u_error = likely_bound(up.exact, false, i, most);
          // Both activations have slopes up to 1.13 and values up to |g|.
          const double bound = 1.13 * g_error * (std::abs(ups[i]) + u_error) +
                               std::abs(gates[i]) * u_error + 1e-5 * (1 + std::abs(expected[at]));
          wrong += !(std::abs(sum[at] - expected[at]) <= bound);
        }
      }
      CHECK(wrong == 0);
    });
  }
}

namespace {

constexpr std::size_t kVocab = 1000;
constexpr std::size_t kRuns = 8;  // of a row of logits

/// What a head makes of some rows: of all the argmax, of every `every`-th the rest.
struct HeadOutput {
  std::vector<std::vector<float>> logits, maxima;
  std::vector<std::vector<double>> sums;
  std::vector<fd::TokenId> argmax;
  std::vector<float*> to_logits, to_maxima;
  std::vector<fd::SumsOfRuns> to_sums;

  HeadOutput(std::size_t n, std::size_t every)
      : logits(n, std::vector<float>(kVocab)),
        maxima(n, std::vector<float>(kRuns)),
        sums(n, std::vector<double>(kRuns)),
        argmax(n) {
    for (std::size_t i = 0; i < n; ++i) {
      const bool wanted = i % every == 0;
      to_logits.push_back(wanted ? logits[i].data() : nullptr);
      to_maxima.push_back(wanted ? maxima[i].data() : nullptr);
      const float temperature = 0.5f + 0.5f * static_cast<float>(i % 3);
      to_sums.push_back({wanted ? sums[i].data() : nullptr, temperature});
    }
  }
};

/// @param most  of the inputs of row i
void check_logits(const HeadOutput& out, const HeadOutput& exact, const Pair& w, std::size_t i,
                  double most) {
  int wrong = 0;
  for (std::size_t id = 0; id < kVocab && out.to_logits[i] != nullptr; ++id) {
    wrong += !(std::abs(out.logits[i][id] - exact.logits[i][id]) <=
               w.bound(static_cast<Eigen::Index>(id), most));
  }
  CHECK(wrong == 0);
  const auto best = fd::idx(out.argmax[i]);
  const auto exact_best = fd::idx(exact.argmax[i]);
  CHECK(exact.logits[i][best] >= exact.logits[i][exact_best] - w.bound(out.argmax[i], most) -
                                     w.bound(exact.argmax[i], most));
}

void check_runs(const HeadOutput& out, const HeadOutput& exact, std::size_t i) {
  const auto as = [](const auto values) { return std::vector(values.begin(), values.end()); };
  const RunsOf of_exact(exact.logits[i], exact.to_sums[i].temperature);
  CHECK(exact.maxima[i] == as(of_exact.all().maxima));
  double worst = 0;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const double sum = of_exact.all().sums[run];
    worst = std::max(worst, std::abs(exact.sums[i][run] - sum) / sum);
  }
  CHECK(worst < 1e-13);
  if (out.to_logits[i] != nullptr) {
    const RunsOf row(out.logits[i], out.to_sums[i].temperature);
    CHECK(out.maxima[i] == as(row.all().maxima));
    CHECK(out.sums[i] == as(row.all().sums));  // to the bit
  } else {
    CHECK(out.maxima[i] == std::vector<float>(kRuns));
    CHECK(out.sums[i] == std::vector<double>(kRuns));
    CHECK(out.logits[i] == std::vector<float>(kVocab));
  }
}

}  // namespace

TEST_CASE("head") {
  for_each_case([](fd::Cpu& cpu, TensorType type, int n_rows) {
    const Pair w(cpu, type, kVocab, 256, 9);
    const auto n = fd::idx(n_rows);
    const std::vector<float> x = mini::normals(n * 256, 10, 3.0f);
    const std::vector<float> norm = mini::normals(256, 11);
    // every second row of the pass, logits of every second of these
    std::vector<std::int32_t> rows;
    for (int row = 0; row < n_rows; row += 2) rows.push_back(row);
    HeadOutput out(rows.size(), 2);
    HeadOutput exact(rows.size(), 1);
    const auto run = [&](auto& backend, const fd::PassShape& shape, const auto& matrix,
                         HeadOutput& to) {
      backend.run(shape, [&]<typename W>(W& worker) noexcept {
        worker.head(fd::HeadArgs<W>{x.data(),
                                    rows,
                                    {norm.data(), 1e-5f},
                                    &matrix,
                                    to.argmax,
                                    to.to_logits,
                                    to.to_maxima,
                                    to.to_sums});
      });
    };
    run(cpu, {.n_rows = n_rows, .d_model = 256, .d_head = 16}, w.packed, out);
    fd::Reference reference;
    run(reference, {}, w.exact, exact);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double most = normalised(&x[fd::idx(rows[i]) * 256], norm).cwiseAbs().maxCoeff();
      check_logits(out, exact, w, i, most);
      check_runs(out, exact, i);
    }
  });
}

namespace {

/// Kernels with a stage direction for two workers and four tiles: worker 0 comes so late that
/// worker 1 has done its own two and begun with the first of worker 0's; worker 1 then waits for
/// worker 0's second one.
struct LateFirstWorker {
  static inline const fd::cpu::KernelTable* kernels = nullptr;
  static inline std::thread::id first_worker;
  static inline std::atomic<int> tiles_of_first = 0;
  static inline std::atomic<int> tiles_of_second = 0;

  static bool is_first() noexcept { return std::this_thread::get_id() == first_worker; }
  static void wait_for(const std::atomic<int>& tiles, int n) noexcept {
    // Bounded, so that another order of work fails the test and does not hang it.
    for (int i = 0; i < 10'000'000 && tiles < n; ++i) std::this_thread::yield();
  }
  static void rms_norm(const float* x, const float* weight, float epsilon, int n,
                       float* y) noexcept {
    if (is_first()) wait_for(tiles_of_second, 3);
    kernels->rms_norm(x, weight, epsilon, n, y);
  }
  static float argmax(const float* values, int n, fd::TokenId first_id,
                      fd::cpu::Best& best) noexcept {
    if (!is_first() && ++tiles_of_second == 3) wait_for(tiles_of_first, 1);
    const float greatest = kernels->argmax(values, n, first_id, best);
    if (is_first()) ++tiles_of_first;
    return greatest;
  }
};

}  // namespace

TEST_CASE("a row with NaN has no best token, whichever worker sees it") {
  const std::vector<float> x(16, 1.0f);
  const std::vector<std::int32_t> rows{0};
  for (const int threads : {1, 2, 3}) {
    fd::Cpu cpu{{.threads = threads}};
    for (const std::size_t damaged : {0u, 200u, 511u}) {
      std::vector<float> values(512 * 16, 1.0f);
      values[damaged * 16] = std::nanf("");
      const auto w = cpu.pack({TensorType::kF32, 512, 16, std::as_bytes(std::span(values))});
      std::vector<fd::TokenId> argmax(1);
      cpu.run({.n_rows = 1, .d_model = 16, .d_head = 16}, [&](auto& worker) noexcept {
        worker.head(fd::HeadArgs<fd::cpu::Worker>{
            x.data(), rows, {x.data(), 1e-5f}, &w, argmax, {}, {}, {}});
      });
      CAPTURE(threads, damaged);
      CHECK(argmax[0] == -1);
    }
  }
}

TEST_CASE("of equal logits the lowest id wins, whichever worker has found it") {
  std::vector<float> values(512 * 16);
  values[5 * 16] = values[200 * 16] = 1.0f;  // the first two tiles
  fd::Cpu packing{{.threads = 1}};
  const auto w = packing.pack({TensorType::kF32, 512, 16, std::as_bytes(std::span(values))});
  const std::vector<float> x(16, 1.0f);
  const std::vector<std::int32_t> rows{0};
  std::vector<fd::TokenId> argmax(1, -1);

  for (const fd::cpu::KernelTable* table : fd::cpu::available_tables()) {
    if (table->isa == usable_isas().back()) LateFirstWorker::kernels = table;
  }
  fd::cpu::KernelTable kernels = *LateFirstWorker::kernels;
  kernels.rms_norm = &LateFirstWorker::rms_norm;
  kernels.argmax = &LateFirstWorker::argmax;
  LateFirstWorker::first_worker = std::this_thread::get_id();
  fd::cpu::ThreadPool pool(2);
  fd::cpu::Scratch scratch;
  scratch.reserve({.n_rows = 1, .d_model = 16, .d_head = 16}, 2);
  pool.run([&](int index) {
    fd::cpu::Worker worker(kernels, pool, scratch, index);
    worker.head(
        fd::HeadArgs<fd::cpu::Worker>{x.data(), rows, {x.data(), 1e-5f}, &w, argmax, {}, {}, {}});
  });
  CHECK(LateFirstWorker::tiles_of_first == 1);
  CHECK(LateFirstWorker::tiles_of_second == 3);
  CHECK(argmax[0] == 5);
}

TEMPLATE_TEST_CASE("qkv rotates, stores behind the committed rows, and attend reads them", "",
                   float, fd::f16) {
  for_each_case([](fd::Cpu& cpu, TensorType type, int n_rows) {
    constexpr int kHeads = 6;
    constexpr int kKvHeads = 2;
    constexpr int kHead = 48;
    constexpr int kRows = 80;  // of the caches
    const fd::PassShape shape{.n_rows = n_rows,
                              .d_model = 512,
                              .d_q = kHeads * kHead,
                              .d_kv = kKvHeads * kHead,
                              .d_head = kHead};
    const Pair wq(cpu, type, kHeads * kHead, 512, 12);
    const Pair wk(cpu, type, kKvHeads * kHead, 512, 13);
    const Pair wv(cpu, TensorType::kQ6_K, kKvHeads * kHead, 512, 14);
    const Pair wo = Pair::identity(cpu, kHeads * kHead, kHeads * kHead);
    const auto n = fd::idx(n_rows);
    const std::vector<float> x = mini::normals(n * 512, 15);
    const std::vector<float> norm = mini::normals(512, 16);
    const std::vector<float> bias = mini::normals(kHeads * kHead, 17);
    std::vector<float> cos(n * 16);
    std::vector<float> sin(n * 16);
    for (std::size_t i = 0; i < cos.size(); ++i) {
      cos[i] = std::cos(static_cast<float>(i));
      sin[i] = std::sin(static_cast<float>(i));
    }
    const std::vector<fd::SequenceRows> sequences{{.first_row = 0,
                                                   .n_rows = n_rows,
                                                   .first_node = 2,
                                                   .size = 40,
                                                   .path = {},
                                                   .path_begin = {}}};
    struct Result {
      std::vector<float> q, out;
      std::vector<TestType> k, v;
    };
    const auto run = [&](auto& backend, const auto& q_matrix, const auto& k_matrix,
                         const auto& v_matrix, const auto& o_matrix) {
      Result r{
          std::vector<float>(n * kHeads * kHead), std::vector<float>(n * kHeads * kHead), {}, {}};
      for (const float value : mini::normals(kKvHeads * kRows * kHead, 18))
        r.k.push_back(TestType(value));
      for (const float value : mini::normals(kKvHeads * kRows * kHead, 19))
        r.v.push_back(TestType(value));
      LayerOver rows(r.k.data(), r.v.data(), kHead, kRows, 40, kKvHeads);
      const std::vector kv = rows.layers();
      backend.run(shape, [&]<typename W>(W& worker) noexcept {
        worker.qkv(fd::QkvArgs<W, fd::RowsIn<TestType>>{
            x.data(),
            n_rows,
            {norm.data(), 1e-5f},
            &q_matrix,
            &k_matrix,
            &v_matrix,
            bias.data(),
            nullptr,
            bias.data(),
            kHeads,
            kKvHeads,
            kHead,
            {fd::RopeKind::kHalves, 32, cos.data(), sin.data()},
            sequences,
            kv,
            r.q.data()});
        worker.attend(fd::AttendArgs<W, fd::RowsIn<TestType>>{r.q.data(), n_rows, kHeads, kKvHeads,
                                                              kHead, 0.1f, sequences, kv, &o_matrix,
                                                              r.out.data()});
      });
      rows.read();
      return r;
    };
    fd::Reference reference;
    const Result ours = run(cpu, wq.packed, wk.packed, wv.packed, wo.packed);
    const Result exact = run(reference, wq.exact, wk.exact, wv.exact, wo.exact);

    // A rotation turns the errors of two dimensions into each other: at most sqrt(2) times the
    // greater.
    int wrong = 0;
    double most = 0;
    for (std::size_t row = 0; row < n; ++row)
      most = std::fmax(most, normalised(&x[row * 512], norm).cwiseAbs().maxCoeff());
    const auto greatest_bound = [&](const Pair& w) {
      double bound = 0;
      for (Eigen::Index i = 0; i < w.exact.rows(); ++i) bound = std::fmax(bound, w.bound(i, most));
      return bound;
    };
    const double q_bound = 1.42 * greatest_bound(wq);
    for (std::size_t i = 0; i < ours.q.size(); ++i)
      wrong += !(std::abs(ours.q[i] - exact.q[i]) <= q_bound);
    CHECK(wrong == 0);
    const double rounding = std::is_same_v<TestType, float> ? 0.0 : 0x1p-10;
    const double k_bound = 1.42 * greatest_bound(wk);
    const double v_bound = greatest_bound(wv);
    for (std::size_t i = 0; i < ours.k.size(); ++i) {
      const auto k = static_cast<float>(exact.k[i]);
      const auto v = static_cast<float>(exact.v[i]);
      wrong += !(std::abs(static_cast<float>(ours.k[i]) - k) <= k_bound + rounding * std::abs(k));
      wrong += !(std::abs(static_cast<float>(ours.v[i]) - v) <= v_bound + rounding * std::abs(v));
      // Rows before size + first_node and behind the last stay as they are.
      const auto row = static_cast<int>(i) / kHead % kRows;
      if (row < 42 || row >= 42 + n_rows) wrong += k != static_cast<float>(ours.k[i]);
    }
    CHECK(wrong == 0);
    // Attention of what was stored, with our own q, k and v: scores are rounded to 24 bits of the
    // sum of their products' magnitudes, and a score's error is a weight's relative error.
    double greatest_k = 0;
    double greatest_v = 0;
    for (std::size_t i = 0; i < ours.k.size(); ++i) {
      greatest_k = std::fmax(greatest_k, std::abs(static_cast<float>(ours.k[i])));
      greatest_v = std::fmax(greatest_v, std::abs(static_cast<float>(ours.v[i])));
    }
    const double score = 0.1 * kHead * greatest(ours.q.data(), ours.q.size()) * greatest_k;
    const double out_bound = 0x1p-24 * (16 + 2 * score) * greatest_v;
    Result again = ours;
    again.out.assign(again.out.size(), 0.0f);
    LayerOver rows(again.k.data(), again.v.data(), kHead, kRows, 40, kKvHeads);
    const std::vector kv = rows.layers();
    reference.run(shape, [&](auto& worker) noexcept {
      worker.attend(fd::AttendArgs<fd::Reference::Worker, fd::RowsIn<TestType>>{
          ours.q.data(), n_rows, kHeads, kKvHeads, kHead, 0.1f, sequences, kv, &wo.exact,
          again.out.data()});
    });
    for (std::size_t i = 0; i < again.out.size(); ++i)
      wrong += !(std::abs(ours.out[i] - again.out[i]) <= out_bound);
    CHECK(wrong == 0);
  });
}
