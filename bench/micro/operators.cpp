// Speed of every operator beside the matrix product, on one thread, with the sizes of a model of
// 1.5 billion weights (Qwen2.5: 12 query heads and 2 KV heads of 128, d_model 1536, d_ff 8960,
// n_vocab 151936).
//
//   bench.operators --benchmark_filter='attention|peak' --benchmark_repetitions=5 [--isa=avx2]

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/acceptance/residual.hpp>
#include <foredraft/backend/cpu/thread_pool.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/pages.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/detail/exponentials.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>
#include <foredraft/sampling/batched_sampler.hpp>
#include <foredraft/sampling/greatest_logit.hpp>
#include <foredraft/sampling/row_sampler.hpp>

#include "machine.hpp"

namespace {

namespace fd = foredraft;
using bench::Machine;

constexpr int kModel = 1536;
constexpr int kFeedForward = 8960;
constexpr int kHeads = 12;
constexpr int kKvHeads = 2;
constexpr int kHead = 128;
constexpr int kVocab = 151936;
constexpr std::size_t kFromMemory = std::size_t{192} << 20;  // more than most last-level caches

/// Attention of M rows to `positions` positions. Keys and values of one layer after the other come
/// from memory, as in a forward pass.
template <typename T>
void attention(benchmark::State& state) {
  const int positions = static_cast<int>(state.range(0));
  const int n_rows = static_cast<int>(state.range(1));
  constexpr int kGroup = kHeads / kKvHeads;
  const auto head = fd::idx(positions * fd::row_elements<T>(kHead));
  const std::size_t n_heads = kFromMemory / (2 * head * sizeof(T)) + 1;
  // The same keys and values again and again: what they hold does not matter.
  const auto values = bench::random_elements<T>(head, 0.3f);
  std::vector<T> keys = values;
  const auto row = fd::idx(fd::row_elements<T>(kHead));
  for (std::size_t i = 0; i < fd::idx(positions); i += fd::cpu::kKeyBlock) {
    fd::cpu::store_keys<T>(reinterpret_cast<const std::byte*>(&values[i * row]), kHead,
                           reinterpret_cast<std::byte*>(&keys[i * row]));
  }
  const fd::Pages pages = fd::take_pages(2 * n_heads * head * sizeof(T), true);
  if (pages == nullptr) throw std::bad_alloc();
  T* const memory = reinterpret_cast<T*>(pages.get());
  for (std::size_t i = 0; i < n_heads; ++i) {
    std::copy(keys.begin(), keys.end(), memory + 2 * i * head);
    std::copy(values.begin(), values.end(), memory + (2 * i + 1) * head);
  }
  const auto q = bench::random_floats(fd::idx(n_rows * kHeads * kHead));
  std::vector<float> out(q.size());
  std::vector<float> workspace(fd::cpu::attend_workspace(kHead) + 16);

  fd::cpu::AttendTask task;
  task.formats = {fd::kFormatOf<T>, fd::kFormatOf<T>};
  task.q = q.data();
  task.out = out.data();
  task.row_stride = kHeads * kHead;
  task.d_head = kHead;
  task.group = kGroup;
  task.scale = 1.0f / std::sqrt(static_cast<float>(kHead));
  task.size = positions - n_rows;  // the rows themselves are staged behind these
  task.end = n_rows * kGroup;
  task.workspace = reinterpret_cast<float*>(
      (reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) & ~std::uintptr_t{63});
  std::size_t next = 0;
  for (auto _ : state) {
    const T* const stored = memory + 2 * next * head;
    task.k = reinterpret_cast<const std::byte*>(stored);
    task.v = reinterpret_cast<const std::byte*>(stored + head);
    next = next + 1 == n_heads ? 0 : next + 1;
    Machine::get().kernels.attend(task);
    benchmark::ClobberMemory();
  }
  bench::count_bytes(state, 2.0 * static_cast<double>(head) * sizeof(T));
  bench::count_macs(state, 2.0 * positions * kHead * n_rows * kGroup, Machine::get().fma);
}

/// A row of the embedding for a token at random.
void embed(benchmark::State& state) {
  static const auto table = bench::random_matrices(fd::TensorType::kQ6_K, kVocab, kModel, 0);
  std::vector<float> x(kModel);
  benchmark::DoNotOptimize(x.data());
  std::minstd_rand random(1);
  for (auto _ : state) {
    table[0].dequantize_row(static_cast<fd::TokenId>(random() % kVocab), x.data());
    benchmark::ClobberMemory();
  }
  bench::count_bytes(state, static_cast<double>(table[0].bytes()) / kVocab, false);
}

/// Keys and values of one row, as a layer's cache takes them.
void store_keys_and_values(benchmark::State& state) {
  const auto heads = bench::random_floats(2 * kKvHeads * kHead);
  std::vector<std::uint16_t> values(kKvHeads * kHead), key(kHead);
  std::vector<std::byte> keys(std::size_t{kKvHeads} * kHead * fd::cpu::kKeyBlock * sizeof(fd::f16));
  int row = 0;
  for (auto _ : state) {
    const auto store = [&](std::size_t at, std::uint16_t* to) {
      Machine::get().kernels.store_half(&heads[at], kHead, to);
    };
    for (std::size_t head = 0; head < kKvHeads; ++head) {
      store(head * kHead, key.data());
      fd::cpu::store_key<fd::f16>(reinterpret_cast<const std::byte*>(key.data()), kHead,
                                  &keys[head * keys.size() / kKvHeads], row);
      store((kKvHeads + head) * kHead, &values[head * kHead]);
    }
    row = (row + 1) % fd::cpu::kKeyBlock;
    benchmark::ClobberMemory();
  }
  bench::count_bytes(state, 2.0 * static_cast<double>(heads.size()), false);
}

/// Norm of one row, and its codes in the format that `type` weights want.
void norm_quantize(benchmark::State& state, fd::TensorType type) {
  const auto& kernels = Machine::get().kernels;
  const auto x = bench::random_floats(kModel);
  const bench::RandomActivations activations(kernels, type, 1, kModel);
  std::vector<float> normed(kModel);
  for (auto _ : state) {
    kernels.rms_norm(x.data(), x.data(), 1e-6f, kModel, normed.data());
    kernels.quantize_row(normed.data(), activations.view(), 0, 0, kModel);
    benchmark::ClobberMemory();
  }
  bench::count_bytes(state, 4.0 * kModel, false);
}

/// All heads of one row.
void rope(benchmark::State& state, fd::RopeKind kind) {
  auto heads = bench::random_floats((kHeads + kKvHeads) * kHead);
  const std::vector<float> cos(kHead / 2, 0.6f);
  const std::vector<float> sin(kHead / 2, 0.8f);
  for (auto _ : state) {
    for (int head = 0; head < kHeads + kKvHeads; ++head) {
      Machine::get().kernels.rope(kind, kHead, cos.data(), sin.data(),
                                  &heads[fd::idx(head) * kHead]);
    }
    benchmark::ClobberMemory();
  }
  bench::count_bytes(state, 4.0 * static_cast<double>(heads.size()), false);
}

void silu_times_up(benchmark::State& state) {
  const auto gate = bench::random_floats(kFeedForward);
  const auto up = gate;
  std::vector<float> work(gate.size());
  for (auto _ : state) {
    std::memcpy(work.data(), gate.data(), 4 * gate.size());  // in place, so it must start anew
    Machine::get().kernels.gated_activation(fd::Activation::kSilu, work.data(), up.data(),
                                            kFeedForward);
    benchmark::ClobberMemory();
  }
  bench::count_bytes(state, 8.0 * kFeedForward, false);
}

void argmax(benchmark::State& state) {
  const auto values = bench::random_floats(fd::idx(state.range(0)));
  for (auto _ : state) {
    fd::cpu::Best best;
    Machine::get().kernels.argmax(values.data(), static_cast<int>(values.size()), 0, best);
    benchmark::DoNotOptimize(best);
  }
  bench::count_bytes(state, 4.0 * static_cast<double>(values.size()), false);
}

/// The output head with M rows, weights from memory.
void head(benchmark::State& state, fd::RowNeed need) {
  auto& cpu = Machine::get().cpu;
  const auto n_rows = fd::idx(state.range(0));
  constexpr auto kType = fd::TensorType::kQ6_K;
  const auto weights = bench::random_matrices(kType, kVocab, kModel, 0);
  const auto x = bench::random_floats(n_rows * kModel);
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < n_rows; ++i) rows.push_back(static_cast<std::int32_t>(i));
  std::vector<fd::TokenId> best(n_rows);
  fd::Scores scores;
  scores.reset({need, {}}, static_cast<int>(n_rows), kVocab);
  std::vector<float*> logits;
  std::vector<float*> maxima;
  std::vector<fd::SumsOfRuns> sums;
  for (int i = 0; i < static_cast<int>(n_rows); ++i) {
    logits.push_back(scores.logits(i).data());
    maxima.push_back(scores.hand_over_maxima(i).data());
    sums.push_back({scores.hand_over_sums(i).data(), 1.0f});
  }
  const fd::PassShape shape{static_cast<int>(n_rows), kModel,           kFeedForward,
                            kHeads * kHead,           kKvHeads * kHead, kHead};
  for (auto _ : state) {
    cpu.run(shape, [&](auto& worker) noexcept {
      worker.head({x.data(), rows, {x.data(), 1e-6f}, &weights[0], best, logits, maxima, sums});
    });
    benchmark::DoNotOptimize(best.data());
  }
  bench::count_bytes(state, static_cast<double>(weights[0].bytes()));
  bench::count_macs(state, static_cast<double>(n_rows) * kModel * kVocab, Machine::get().dot);
}

/// Logits as unequal as those of a language's tokens (Zipf).
std::vector<float> zipf_logits(int n_vocab, unsigned seed) {
  std::vector<float> logits(fd::idx(n_vocab));
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = -1.3f * std::log(static_cast<float>(i + 1));
  std::shuffle(logits.begin(), logits.end(), std::mt19937(seed));
  return logits;
}

/// A row of logits as the head hands it over to a rule that reads probabilities.
struct Row {
  explicit Row(const fd::SamplingOptions& options, unsigned seed = 1) {
    fd::Scores& to = scores;
    const fd::RowNeed need = fd::RowSampler::need_with_probability(options);
    to.reset({need, {}, options.temperature}, 1, kVocab);
    const std::vector<float> logits = zipf_logits(kVocab, seed);
    to.set_row(0, logits);
    std::vector<float> maxima;
    fd::maxima_of_runs(logits, maxima);
    std::copy(maxima.begin(), maxima.end(), to.hand_over_maxima(0).begin());
    const std::span<double> sums = to.hand_over_sums(0);
    for (std::size_t run = 0; run < sums.size(); ++run) {
      const std::size_t begin = run * fd::Scores::kRun;
      const std::size_t n = std::min(fd::Scores::kRun, logits.size() - begin);
      sums[run] =
          fd::sum_of_weights(std::span(logits).subspan(begin, n), maxima[run], options.temperature);
    }
    draft.reset(0);
  }
  fd::Scores scores;
  fd::DraftTree draft;
  std::vector<fd::TokenId> tokens{0};
};

/// A draw from a row, which is what match costs.
void sample(benchmark::State& state, fd::SamplingOptions options) {
  const Row row(options);
  fd::RowSampler sampler;
  fd::Philox rng(1);
  fd::Position position = 0;
  for (auto _ : state) {
    sampler.begin(options, row.scores, row.draft, row.tokens);
    const fd::RngKey key{fd::Purpose::kTargetSample, ++position, 0};
    benchmark::DoNotOptimize(sampler.draw(0, key, rng));
  }
}

/// Slots with the same options, whose rows come without what a head knows of them.
struct Slots {
  static constexpr int kSlots = 8;

  Slots(int n_vocab, int n_workers, const fd::SamplingOptions& options)
      : sampler(n_vocab, 16, n_workers) {
    for (unsigned seed = 0; seed < kSlots; ++seed) {
      logits.push_back(zipf_logits(n_vocab, seed));
      const int slot = sampler.add({options, seed}, std::vector<fd::TokenId>{0});
      rows.push_back({slot, logits.back()});
    }
  }

  fd::BatchedSampler sampler;
  std::vector<std::vector<float>> logits;
  std::vector<fd::SlotRow> rows;
};

/// One slot after the other, so that a row is not in the nearest cache.
void batched_sample(benchmark::State& state, fd::SamplingOptions options) {
  const int n_vocab = static_cast<int>(state.range(0));
  Slots slots(n_vocab, 1, options);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(slots.sampler.step({&slots.rows[next], 1})[0].token);
    next = (next + 1) % Slots::kSlots;
  }
  bench::count_bytes(state, 4.0 * n_vocab, false);
}

/// All slots in one step, which some threads share.
void batched_step(benchmark::State& state, fd::SamplingOptions options) {
  fd::cpu::ThreadPool pool(static_cast<int>(state.range(0)));
  Slots slots(kVocab, pool.size(), options);
  for (auto _ : state) benchmark::DoNotOptimize(slots.sampler.step(slots.rows, pool)[0].token);
  bench::count_bytes(state, 4.0 * kVocab * Slots::kSlots, false);
}

/// The probability of a drafted token, which is what rejection sampling reads of most rows.
void probability(benchmark::State& state, fd::SamplingOptions options) {
  const Row row(options);
  fd::RowSampler sampler;
  fd::TokenId token = 0;
  for (auto _ : state) {
    sampler.begin(options, row.scores, row.draft, row.tokens);
    benchmark::DoNotOptimize(sampler.probability(0, token = (token + 7919) % kVocab));
  }
}

/// A token in place of a rejected one, which was drawn from the same transforms of another row.
void residual(benchmark::State& state, fd::SamplingOptions options) {
  const Row row(options);
  const Row other(options, 2);
  fd::RowSampler sampler;
  sampler.begin(options, other.scores, other.draft, other.tokens);
  const fd::Law q = sampler.law(0);
  fd::Philox rng(1);
  fd::Position position = 0;
  for (auto _ : state) {
    sampler.begin(options, row.scores, row.draft, row.tokens);
    const fd::RngKey key{fd::Purpose::kResidual, ++position, 0};
    benchmark::DoNotOptimize(fd::draw_residual(sampler, 0, q, key, rng));
  }
}

/// All of p, which is what block verification and a second sibling ask for.
void law(benchmark::State& state, fd::SamplingOptions options) {
  const Row row(options);
  fd::RowSampler sampler;
  std::size_t kept = 0;
  for (auto _ : state) {
    sampler.begin(options, row.scores, row.draft, row.tokens);
    benchmark::DoNotOptimize(kept = sampler.law(0).size());
  }
  bench::count_bytes(state, 4.0 * kVocab, false);
  state.counters["kept"] = static_cast<double>(kept);
}

/// A text of `n` tokens whose words are as unequal as those of a language (Zipf), and which ends
/// with a copy of an earlier place.
std::vector<fd::TokenId> text(std::size_t n) {
  std::vector<double> weights;
  for (int rank = 1; rank <= 20000; ++rank) weights.push_back(1.0 / rank);
  std::discrete_distribution<fd::TokenId> word(weights.begin(), weights.end());
  std::mt19937 random(3);
  std::vector<fd::TokenId> tokens(n);
  for (auto& token : tokens) token = word(random);
  std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(n / 3), 12, tokens.end() - 12);
  return tokens;
}

/// K7: a draft of 8 tokens behind a text that is indexed.
void lookup_propose(benchmark::State& state) {
  const auto tokens = text(fd::idx(state.range(0)));
  fd::PromptLookup lookup;
  fd::DraftTree draft;
  int drafted = 0;
  for (auto _ : state) {
    draft.reset(tokens.back());
    lookup.propose({tokens, {}, {}, false, nullptr}, {8, 8}, draft);
    drafted = draft.drafted();
    benchmark::DoNotOptimize(drafted);
  }
  state.counters["drafted"] = drafted;
}

/// The other part of K7: entering a text, a token an item.
void lookup_insert(benchmark::State& state) {
  const auto tokens = text(fd::idx(state.range(0)));
  fd::PromptLookup lookup;
  fd::DraftTree draft;
  for (auto _ : state) {
    lookup.reset();
    draft.reset(tokens.back());
    lookup.propose({tokens, {}, {}, false, nullptr}, {}, draft);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void register_all() {
  using benchmark::RegisterBenchmark;
  const auto attend = [](const char* name, auto function) {
    auto* one = RegisterBenchmark(name, function);
    one->ArgNames({"positions", "M"})->ArgsProduct({{256, 4096}, {1, 8}})->UseRealTime();
  };
  attend("attention/f16", attention<fd::f16>);
  attend("attention/q8_0", attention<fd::q8_0>);
  attend("attention/f32", attention<float>);
  RegisterBenchmark("embed/Q6_K", embed);
  RegisterBenchmark("store_keys_and_values/f16", store_keys_and_values);
  RegisterBenchmark("norm_quantize/per_256", norm_quantize, fd::TensorType::kQ4_K);
  RegisterBenchmark("norm_quantize/per_32", norm_quantize, fd::TensorType::kQ4_0);
  RegisterBenchmark("rope/adjacent", rope, fd::RopeKind::kAdjacent);
  RegisterBenchmark("rope/halves", rope, fd::RopeKind::kHalves);
  RegisterBenchmark("silu_times_up", silu_times_up);
  RegisterBenchmark("argmax", argmax)->Arg(kVocab)->Arg(262144);
  for (const auto& [name, need] : {std::pair{"head/Q6_K", fd::RowNeed::kArgmax},
                                   std::pair{"head_with_logits/Q6_K", fd::RowNeed::kLogits},
                                   std::pair{"head_with_sums/Q6_K", fd::RowNeed::kSums}}) {
    RegisterBenchmark(name, head, need)->ArgName("M")->Arg(1)->Arg(8)->UseRealTime();
  }
  const std::pair<const char*, fd::SamplingOptions> samplings[] = {
      {"temperature_1", {.temperature = 1.0f}},
      {"top_k_40_top_p_0.95", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f}},
      {"top_p_0.95", {.temperature = 0.8f, .top_p = 0.95f}},
      {"min_p_0.05", {.temperature = 0.8f, .min_p = 0.05f}}};
  for (const auto& [name, options] : samplings) {
    RegisterBenchmark((std::string("sample/") + name).c_str(), sample, options);
    RegisterBenchmark((std::string("probability/") + name).c_str(), probability, options);
    RegisterBenchmark((std::string("residual/") + name).c_str(), residual, options);
    RegisterBenchmark((std::string("law/") + name).c_str(), law, options);
    RegisterBenchmark((std::string("batched_sample/") + name).c_str(), batched_sample, options)
        ->Arg(kVocab)
        ->Arg(262144);
    RegisterBenchmark((std::string("batched_step/") + name).c_str(), batched_step, options)
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime();
  }
  RegisterBenchmark("prompt_lookup/propose", lookup_propose)->Arg(32768);
  RegisterBenchmark("prompt_lookup/insert", lookup_insert)->Arg(32768);
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benchmarks(argc, argv, register_all); }
