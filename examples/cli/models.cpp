#include "models.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/load.hpp>

#include "memory.hpp"
#include "survey.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

using Clock = std::chrono::steady_clock;

/// A file that is open, and what it is loaded as.
struct ModelFile {
  ModelFile(std::string_view role, const std::filesystem::path& file)
      : name(std::string(role) + "'" + visible(file.string()) + "'"),
        path(file),
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
  fd::Gguf gguf;
  fd::LoadOptions options = {};
};

/// @param load  called with the file's options, and shows how far it is
template <typename Load>
auto load(const ModelFile& file, fd::LoadOptions options, Load load) {
  std::string note;  // kept until the bar is gone, which would wipe it away
  options.note = [&](const std::string& text) { note = text; };
  auto model = file.named([&] {
    ProgressBar bar("loading " + visible(file.path.stem().string()));
    options.progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
    return load(options);
  });
  if (!note.empty()) std::cerr << "foredraft: " << visible(note) << '\n';
  return model;
}

Model load_on_cpu(fd::Cpu& cpu, const ModelFile& file, bool keep_packed) {
  fd::LoadOptions options = file.options;
  const bool changed = options.requantize || options.head_tokens != 0;
  if (keep_packed && !changed) options.packed_files = fd::packed_file_places(file.path);
  return load(file, options,
              [&](const fd::LoadOptions& asked) { return fd::load(cpu, file.gguf, asked); });
}

/// Of the target's cache, as far as it is known before loading.
int context_of(const ModelSettings& settings, const fd::ModelConfig& config) {
  return settings.n_ctx > 0 ? settings.n_ctx : default_context(config.n_ctx);
}

std::unique_ptr<Target> load_target(fd::Cpu& cpu, const ModelFile& file,
                                    const ModelSettings& settings) {
  if (!settings.on_gpu) {
    return on_cpu(load_on_cpu(cpu, file, settings.keep_packed),
                  std::string(fd::cpu::name_of(cpu.isa())));
  }
  return load(file, file.options,
              [&](const fd::LoadOptions& asked) { return load_on_gpu(file.gguf, asked); });
}

bool same_file(const ModelFile& a, const ModelFile& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a.path, b.path, ignored);
}

/// Refuse what cannot fit before half of it is read: that takes seconds, and then the system ends
/// the program without a word.
void require_room(const ModelFile& target, const std::optional<ModelFile>& draft,
                  const ModelSettings& settings) {
  const int rows = fd::Options().prefill_block;
  const Survey need = target.survey();
  if (settings.check) settings.check(need.config);
  check_cache_formats(settings.cache, need.config, "", settings.on_gpu);
  const int n_ctx = context_of(settings, need.config);
  double bytes = need.pass_bytes(rows, fd::DraftTree::kMaxNodes);
  if (settings.on_gpu) {
    require_gpu(target.gguf, need.config, settings.cache, n_ctx, bytes);
  } else {
    bytes += static_cast<double>(need.weight_bytes) + need.cache_bytes(n_ctx, settings.cache);
  }
  std::string what = "weights and a context of " + std::to_string(n_ctx);
  if (draft) {
    const Survey extra = draft->survey();
    check_cache_formats(settings.draft_cache, extra.config, "-draft", false);
    bytes += static_cast<double>(extra.weight_bytes) +
             extra.cache_bytes(std::min(n_ctx, int{extra.config.n_ctx}), settings.draft_cache) +
             extra.pass_bytes(rows, 1);
    what += " for two models";
  }
  require_memory(bytes, what, "a smaller context (-c) or a smaller model");
}

}  // namespace

/// Both are opened and looked at before one of them is loaded, so that what cannot work is told at
/// once.
struct Models::Files {
  explicit Files(const ModelSettings& settings) : target("", settings.target) {
    if (!settings.draft.empty()) {
      draft.emplace("draft model ", settings.draft);
      draft->options = settings.draft_options.value_or(fd::drafting_options(draft->gguf));
      check_own_file();
    }
    require_room(target, draft, settings);
  }

  /// A model may draft for itself only where it is made cheaper for that.
  void check_own_file() const {
    if (!same_file(target, *draft)) return;
    if (!draft->options.requantize && draft->options.head_tokens == 0) {
      throw UsageError("the target's own file as draft model, as it is", "a smaller model",
                       "a token that is drafted would cost what one of the target costs");
    }
  }

  Clock::time_point begin = Clock::now();
  ModelFile target;
  std::optional<ModelFile> draft;
};

Models::Models(const ModelSettings& settings) : Models(settings, Files(settings)) {}

std::string Models::note() const {
  if (draft && !same_vocabulary()) {
    return "the draft model has another tokenizer; its drafts are translated";
  }
  if (own_draft) {
    return "the draft model is the target's own file, made smaller; a smaller model drafts at a "
           "fraction of its cost";
  }
  return {};
}

Model* Models::target_on_cpu() const {
  auto* const there = dynamic_cast<TargetOn<Model>*>(target_.get());
  return there == nullptr ? nullptr : &there->model;
}

bool Models::same_vocabulary() const {
  return !fd::first_difference(target.info().vocabulary, draft->info().vocabulary);
}

// The draft model first: it is the smaller one, and the one whose options its file may refuse.
Models::Models(const ModelSettings& settings, const Files& files)
    : cpu({.threads = settings.threads, .isa = settings.isa}),
      draft(files.draft ? std::optional(load_on_cpu(cpu, *files.draft, settings.keep_packed))
                        : std::nullopt),
      target_(load_target(cpu, files.target, settings)),
      target(*target_),
      own_draft(files.draft && same_file(files.target, *files.draft)),
      load_seconds(std::chrono::duration<double>(Clock::now() - files.begin).count()) {}

}  // namespace cli
