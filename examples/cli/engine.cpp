#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/model/load.hpp>

#include "memory.hpp"
#include "output.hpp"
#include "survey.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
using SmallCache = fd::LinearCache<fd::q8_0>;

constexpr int kBlock = 512;          // tokens of a prompt in one pass
constexpr int kVerifiedRows = 64;    // most rows of a verification: DraftTree::kMaxNodes
constexpr int kRowsWithLogits = 32;  // 32 rows of 152k logits are 20 MB

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Forward `tokens` behind what the cache holds, and commit them. The last `n_read` rows are wanted
/// as `need` says.
void forward(Model& model, Cache& cache, std::span<const fd::TokenId> tokens, std::size_t n_read,
             fd::RowNeed need, fd::Scores& scores) {
  std::vector<fd::Node> nodes;
  std::vector<fd::NodeIndex> path;
  for (const fd::TokenId token : tokens) {
    path.push_back(static_cast<fd::NodeIndex>(nodes.size()));
    nodes.push_back({token, path.back() - 1});
  }
  cache.stage(nodes);
  const int n_unread = static_cast<int>(tokens.size() - n_read);
  fd::Scores unread;
  std::vector<fd::Request<Cache>> requests;
  if (n_unread > 0) {
    requests.push_back({&cache, 0, n_unread, {fd::RowNeed::kNothing, {}}, &unread});
  }
  if (n_read > 0) {
    requests.push_back({&cache, n_unread, static_cast<int>(n_read), {need, {}}, &scores});
  }
  model.forward(std::span(requests));
  cache.commit(path);
}

/// The best token of a row. Numbers from a model that yields nonsense would mean nothing.
/// @errors kInvalidLogits
fd::TokenId valid_best(const fd::Scores& scores, int row) {
  const fd::TokenId best = scores.argmax(row);
  if (best >= 0) return best;
  throw fd::Error(fd::ErrorCode::kInvalidLogits, "a row of logits with NaN or no finite value",
                  "finite logits, -inf for impossible tokens",
                  "the model is damaged, or was converted wrongly");
}

/// A file that is open, and what it is loaded as.
struct ModelFile {
  ModelFile(std::string_view role, const std::filesystem::path& file, fd::LoadOptions how)
      : name(std::string(role) + "'" + visible(file.string()) + "'"),
        path(file),
        options(std::move(how)),
        gguf(fd::Gguf::open(file)) {}

  /// What `work` returns. Its errors say which of two files they are about.
  template <typename Work>
  auto named(Work work) const {
    try {
      return work();
    } catch (const fd::Error& error) {
      throw error_in(name, error);
    }
  }

  Survey survey() const {
    return named([&] { return cli::survey(gguf, options); });
  }

  std::string name;
  std::filesystem::path path;
  fd::LoadOptions options;
  fd::Gguf gguf;
};

Model load(fd::Cpu& cpu, const ModelFile& file, bool packed_cache) {
  fd::LoadOptions options = file.options;
  const bool changed = options.requantize || options.head_tokens != 0;
  if (packed_cache && !changed) options.packed_cache = fd::packed_cache_places(file.path);
  std::string note;
  options.note = [&](const std::string& text) { note = text; };
  Model model = file.named([&] {
    ProgressBar bar("loading " + visible(file.path.stem().string()));
    options.progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
    return fd::load(cpu, file.gguf, options);
  });
  if (!note.empty()) std::cerr << "foredraft: " << visible(note) << '\n';
  return model;
}

fd::AnyAcceptance acceptance(AcceptanceRule rule) {
  switch (rule) {
    case AcceptanceRule::kMatch: return fd::SampleAndMatch{};
    case AcceptanceRule::kRejection: return fd::RejectionSampling{};
    case AcceptanceRule::kBlock: break;
  }
  return fd::BlockVerification{};
}

/// Refuse what cannot fit before half of it is read.
void require_room(const ModelFile& target, const std::optional<ModelFile>& draft,
                  const EngineSettings& settings) {
  const int n_ctx = settings.n_ctx;
  const Survey need = target.survey();
  if (settings.check) settings.check(need.config);
  const int context = n_ctx > 0 ? n_ctx : default_context(need.config.n_ctx);
  double bytes = static_cast<double>(need.weight_bytes) +
                 need.cache_bytes(context, settings.cache_type == CacheType::kQ8_0) +
                 need.pass_bytes(kBlock, kVerifiedRows);
  std::string what = "weights and a context of " + std::to_string(context);
  if (draft) {
    const Survey extra = draft->survey();
    bytes += static_cast<double>(extra.weight_bytes) +
             extra.cache_bytes(std::min(context, int{extra.config.n_ctx})) +
             extra.pass_bytes(kBlock, 1);
    what += " for two models";
  }
  require_memory(bytes, what, "a smaller context (-c) or a smaller model");
}

}  // namespace

struct Engine::Parts {
  explicit Parts(const EngineSettings& settings)
      : cpu({.threads = settings.threads, .isa = settings.isa}) {}

  fd::Cpu cpu;
  std::optional<Model> target;
  std::optional<Model> draft;
  std::optional<Cache> timed;
  double load_seconds = 0;

  /// An empty cache for n tokens. It keeps its memory: what is timed is a pass of a program that has
  /// run for a while, not how the system clears pages.
  Cache& emptied(int n) {
    if (!timed || timed->capacity() < n) timed.emplace(target->shape(), n, kBlock);
    timed->truncate(0);
    return *timed;
  }
};

Engine::Engine(const EngineSettings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  const ModelFile target("", settings.model, {});
  std::optional<ModelFile> draft;
  if (!settings.draft.empty()) {
    draft.emplace("draft model ", settings.draft, settings.draft_options);
  }
  require_room(target, draft, settings);
  parts_ = std::make_unique<Parts>(settings);
  // The smaller one first: it is the one whose options its file may refuse.
  if (draft) parts_->draft.emplace(load(parts_->cpu, *draft, settings.packed_cache));
  parts_->target.emplace(load(parts_->cpu, target, settings.packed_cache));
  parts_->load_seconds = seconds_since(begin);
}

Engine::~Engine() = default;

const fd::ModelConfig& Engine::config() const { return parts_->target->config(); }
const fd::Tokenizer& Engine::tokenizer() const { return parts_->target->tokenizer(); }
int Engine::threads() const { return parts_->cpu.threads(); }
std::string_view Engine::isa() const { return fd::cpu::name_of(parts_->cpu.isa()); }
double Engine::load_seconds() const { return parts_->load_seconds; }

fd::AnyDrafter<> Engine::drafter(const Method& method, const fd::SamplingOptions& sampling) {
  switch (method.speculation) {
    case Speculation::kNone: return fd::NoDraft{};
    case Speculation::kLookup: return fd::PromptLookup{};
    case Speculation::kDraft: break;
  }
  // The draft model need not reach as far as the target: where its context ends, drafting ends.
  const int reach = std::min(method.n_ctx, int{parts_->draft->shape().n_ctx});
  fd::ModelDrafterSettings settings;
  if (method.draft_temperature) {
    settings.law = sampling;
    settings.law->temperature = *method.draft_temperature;
    if (settings.law->greedy()) {  // the best token is left by any cut
      settings.law->top_k = 0;
      settings.law->top_p = 1.0f;
      settings.law->min_p = 0.0f;
    }
  }
  // The decoder only sees AnyDrafter, so the vocabularies are compared here.
  fd::check_same_vocabulary(*parts_->target, *parts_->draft);
  return fd::ModelDrafter{*parts_->draft, settings, reach};
}

void Engine::generate(std::span<const fd::TokenId> prompt, fd::Options options,
                      const Method& method, int samples, const Listener& listener) {
  if (method.cache_type == CacheType::kQ8_0) {
    generate_with<SmallCache>(prompt, std::move(options), method, samples, listener);
  } else {
    generate_with<Cache>(prompt, std::move(options), method, samples, listener);
  }
}

template <typename TargetCache>
void Engine::generate_with(std::span<const fd::TokenId> prompt, fd::Options options,
                           const Method& method, int samples, const Listener& listener) {
  using Decoder = fd::Decoder<Model, TargetCache, fd::AnyDrafter<>, fd::AnyAcceptance>;
  // The context was not known when the models were loaded, unless -c was given.
  double bytes = TargetCache::full_bytes(parts_->target->shape(), method.n_ctx);
  if (method.speculation == Speculation::kDraft) {
    const fd::CacheShape shape = parts_->draft->shape();
    bytes += Cache::full_bytes(shape, std::min(method.n_ctx, int{shape.n_ctx}));
  }
  require_memory(bytes, "a context of " + std::to_string(method.n_ctx),
                 "a smaller context (-c), or fewer tokens (-n)");
  Decoder decoder(*parts_->target, TargetCache(parts_->target->shape(), method.n_ctx),
                  drafter(method, options.sampling()), acceptance(method.rule));
  if (samples == 1) {  // without the copy that a snapshot is
    listener.begin(0);
    listener.done(0, decoder.generate(prompt, options, listener.emit));
    return;
  }
  const fd::Result read = decoder.prefill(prompt, options);
  const typename Decoder::Snapshot behind_prompt = decoder.snapshot();
  const std::uint64_t seed = options.seed;
  for (int sample = 0; sample < samples; ++sample) {
    options.seed = seed + static_cast<std::uint64_t>(sample);
    listener.begin(sample);
    if (sample > 0) decoder.restore(behind_prompt);
    fd::Result result = decoder.resume(options, listener.emit);
    if (sample == 0) {
      result.stats += read.stats;
    } else {
      result.stats.prompt_tokens = result.stats.reused_tokens = std::ssize(prompt);
    }
    listener.done(sample, result);
    if (result.finish_reason == fd::FinishReason::kCancelled) return;
  }
}

void Engine::each_row(std::span<const fd::TokenId> tokens,
                      const std::function<void(int, std::span<const float>)>& row) {
  Model& model = *parts_->target;
  if (tokens.size() > static_cast<std::size_t>(model.shape().n_ctx)) {
    throw fd::Error(
        fd::ErrorCode::kContextOverflow, "a text of " + std::to_string(tokens.size()) + " tokens",
        "at most the " + std::to_string(model.shape().n_ctx) + " of the model's context",
        "shorten the text");
  }
  if (tokens.empty()) return;
  Cache cache(model.shape(), static_cast<int>(tokens.size()), kRowsWithLogits);
  fd::Scores scores;
  while (cache.size() < static_cast<int>(tokens.size())) {
    const int begin = cache.size();
    const auto block = tokens.subspan(static_cast<std::size_t>(begin));
    const std::size_t count = std::min<std::size_t>(block.size(), kRowsWithLogits);
    forward(model, cache, block.first(count), count, fd::RowNeed::kLogits, scores);
    for (int i = 0; i < static_cast<int>(count); ++i) {
      row(begin + i, std::as_const(scores).logits(i));
    }
  }
}

double Engine::time_of_pass(std::span<const fd::TokenId> tokens) {
  Model& model = *parts_->target;
  Cache& cache = parts_->emptied(static_cast<int>(tokens.size()));
  fd::Scores scores;
  const auto begin = std::chrono::steady_clock::now();
  for (auto rest = tokens; !rest.empty();) {
    const auto block = rest.first(std::min<std::size_t>(rest.size(), kBlock));
    rest = rest.subspan(block.size());
    const bool verification = tokens.size() <= kVerifiedRows;
    const std::size_t n_read = verification ? block.size() : rest.empty() ? 1 : 0;
    forward(model, cache, block, n_read, fd::RowNeed::kArgmax, scores);
    for (std::size_t row = 0; row < n_read; ++row) valid_best(scores, static_cast<int>(row));
  }
  return seconds_since(begin);
}

double Engine::time_of_decoding(fd::TokenId first, int n) {
  Model& model = *parts_->target;
  Cache& cache = parts_->emptied(n);
  fd::Scores scores;
  fd::TokenId token = first;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i) {
    forward(model, cache, std::span(&token, 1), 1, fd::RowNeed::kArgmax, scores);
    token = valid_best(scores, 0);
  }
  return seconds_since(begin);
}

}  // namespace cli
