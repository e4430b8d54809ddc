#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <foredraft/backend/cpu/isa.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/drafter/any_drafter.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/load_options.hpp>

#include "usage.hpp"

namespace cli {

enum class Speculation {
  kNone,
  kLookup,
  kDraft
};
enum class AcceptanceRule {
  kMatch,
  kRejection,
  kBlock
};

/// Storage of keys and values.
enum class CacheType {
  kF16,
  kQ8_0
};

/// How texts are made, beside the options of the loop.
struct Method {
  Speculation speculation = Speculation::kNone;
  AcceptanceRule rule = AcceptanceRule::kMatch;
  int n_ctx = 0;
  CacheType cache_type = CacheType::kF16;       ///< of the target's cache
  std::optional<float> draft_temperature = {};  ///< absent: as the target is sampled
};

/// Who is told of texts as they come. Samples count from 0.
struct Listener {
  std::function<void(int sample)> begin;
  std::function<void(const fd::Emitted&)> emit;
  std::function<void(int sample, const fd::Result&)> done;
};

struct EngineSettings {
  std::filesystem::path model;
  std::filesystem::path draft = {};    ///< empty: none
  fd::LoadOptions draft_options = {};  ///< what becomes of it while it is loaded
  int threads = 0;                     ///< 0: as many as the machine grants
  std::optional<fd::cpu::Isa> isa = {};
  int n_ctx = 0;  ///< of the cache, as far as it is known before loading; 0: the default
  CacheType cache_type = CacheType::kF16;
  /// Told of the target before any weight is read; may throw. Absent: nothing is checked.
  std::function<void(const fd::ModelConfig&)> check = {};
  bool packed_cache = false;  ///< map the models from packed files; one that is changed never
};

/// The models of a run on one processor backend. It hides the templates: this is the one place
/// where they are compiled.
class Engine {
 public:
  /// @errors what fd::load throws; kOutOfMemory before anything is read where it cannot fit
  explicit Engine(const EngineSettings& settings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const fd::ModelConfig& config() const;
  const fd::Tokenizer& tokenizer() const;
  int threads() const;
  std::string_view isa() const;
  double load_seconds() const;

  /// `samples` texts behind one prompt, which is read once, with the seeds options.seed and up.
  /// Statistics of the prompt belong to the first; for the others it is reused. A cancel ends all.
  /// @errors kOutOfMemory before anything is read where the caches cannot fit;
  ///   kVocabularyMismatch where the draft model has another vocabulary; what LinearCache and
  ///   Decoder throw
  void generate(std::span<const fd::TokenId> prompt, fd::Options options, const Method& method,
                int samples, const Listener& listener);

  /// Calls row(position, logits) for every token of one sequence. @errors kContextOverflow
  void each_row(std::span<const fd::TokenId> tokens,
                const std::function<void(int, std::span<const float>)>& row);

  /// Time to forward the tokens into an empty cache, in blocks of 512. Up to 64 tokens every row's
  /// best token is computed, as in a verification; beyond that only the last row's, as in a prompt.
  /// @units seconds
  double time_of_pass(std::span<const fd::TokenId> tokens);

  /// Time to decode `n` tokens one by one after `first`. @units seconds
  double time_of_decoding(fd::TokenId first, int n);

 private:
  template <typename Cache>
  void generate_with(std::span<const fd::TokenId> prompt, fd::Options options, const Method& method,
                     int samples, const Listener& listener);
  fd::AnyDrafter<> drafter(const Method& method, const fd::SamplingOptions& sampling);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace cli
