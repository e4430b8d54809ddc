#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <foredraft/core/options.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "arguments.hpp"
#include "constraint_arguments.hpp"
#include "draft_arguments.hpp"
#include "models.hpp"
#include "sampling_arguments.hpp"
#include "speculation.hpp"

namespace cli {

/// All that `generate` is told.
struct GenerateArguments {
  std::string model;
  std::string draft;
  std::string trace;                      ///< file; empty: none
  std::string prompt_cache;               ///< file; empty: none
  std::string spec_type = kAuto;          ///< or kNone, or a list of the table of drafters
  std::optional<std::string> acceptance;  ///< of the table of rules; absent: the default
  std::optional<int> n_max;
  std::optional<int> n_nodes;
  std::string tree;  ///< "3,2,1": children of a node by depth
  std::string translation = kTranslations[0];
  std::string lookup_static;  ///< file; empty: none
  std::string lookup_dynamic;
  std::string state;              ///< file of the controller's state; empty: none
  std::string memory;             ///< folder of what drafters learn; empty: none
  std::optional<int> lookup_min;  ///< tokens; absent: the default of lookup
  NgramSizes ngram_sizes;
  std::string layers;  ///< "0-7,20-27": layers of the target that draft
  TextArgument prompt;
  MachineArguments machine;
  bool raw = false;
  std::string chat_format;  ///< of fd::kChatMarks; empty: what the model's template says
  bool json = false;
  int n_ctx = 0;
  bool per_request =
      false;  ///< each text may have a temperature, a seed and a constraint of its own
  std::string cache_type_k = kCacheFormats[0];
  std::string cache_type_v = kCacheFormats[0];
  std::optional<std::string> draft_cache_type_k;  ///< absent: the default, as above
  std::optional<std::string> draft_cache_type_v;
  int sinks = 0;
  int samples = 1;
  bool context_shift = false;
  std::optional<int> keep;            ///< tokens that a shift keeps; absent: the default
  std::optional<std::uint64_t> seed;  ///< absent: 0
  std::optional<int> repeat_last_n;   ///< absent: the library's default
  std::optional<float> draft_temperature;
  std::optional<std::string> draft_device;  ///< of kDevices; absent: the processor
  DraftArguments draft_load;
  ConstraintArguments constraint;
  SamplingArguments more_sampling;
  fd::Options options;  ///< complete behind resolve() and complete()

  void add_to(CLI::App& command);
  /// What all prompts of a file are told.
  void add_to_batch(CLI::App& command);
  /// What requests leave out.
  void add_to_server(CLI::App& command);
  /// What a conversation is told as well: all but the prompt and what is done with the text.
  void add_to_chat(CLI::App& command);

  /// What the user chose, or the defaults, all but the context, which depends on the prompt. It
  /// refuses what CLI11 cannot see: options that contradict each other or would have no effect.
  /// @errors UsageError, kInvalidOption
  Method resolve();
  /// How the models are loaded for it. Both have to live until they are.
  /// @errors UsageError, kIo where there is no such model
  ModelSettings models(const Method& method) const;

  /// What takes a vocabulary: the constraint, and texts among the options of sampling.
  /// @errors UsageError, what constraints throw, kUnsupportedModel as chat_template()
  void complete(const fd::Tokenizer& tokenizer);
  /// -c, or a default with room for the prompt and what is asked for, as far as the model reaches.
  int context(int trained, std::size_t prompt_tokens) const;

  bool draft_on_gpu() const { return draft_device && *draft_device != kDevices[0]; }
  /// Whether --keep-packed is about the draft model, too.
  bool maps_draft() const { return machine.keep_packed && !draft_on_gpu(); }

 private:
  void add_trace(CLI::App& command);
  void add_raw(CLI::App& command);
  void add_turns(CLI::App& command);
  void add_limits(CLI::App& command);
  void add_shift(CLI::App& command);
  void add_caches(CLI::App& command);
  void add_method(CLI::App& command);
  void add_sampling(CLI::App& command);
  void add_penalties(CLI::App& command);
  void add_speculation(CLI::App& command);
  void add_draft_model(CLI::App& command);
  void add_ngram_sizes(CLI::App& command);
  void add_static_ngrams(CLI::App& command);
  void add_learned_files(CLI::App& command);
  std::string chosen_speculation() const;
  void check_tree(const Method& method) const;
  std::vector<int> chosen_tree() const;
  fd::Translation chosen_translation() const;
  fd::RowFormats chosen_draft_cache() const;
  void check_ngram_files(const Method& method) const;
  void check_drafters_settings(const Method& method) const;
  std::vector<int> chosen_layers(const Method& method) const;
  void check_state(const Method& method) const;
  void check_shift() const;
  void check_device(const Method& method) const;
  void check_sinks(const fd::ModelConfig& config) const;
  void check_penalties() const;
  void check_acceptance(const Method& method) const;
  void check_samples() const;
  void check_draft_temperature() const;
  fd::SamplingOptions draft_law() const;
};

}  // namespace cli
