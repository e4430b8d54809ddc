#include "models.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/load.hpp>

#include "draft.hpp"
#include "memory.hpp"
#include "output.hpp"
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

  Survey survey(bool on_gpu) const {
    return named([&] { return cli::survey(gguf, options, on_gpu); });
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
  // A packed file holds weights as the model's file has them: fd::load refuses it for others.
  if (keep_packed && !changed) options.packed_files = fd::packed_file_places(file.path);
  return load(file, options,
              [&](const fd::LoadOptions& asked) { return fd::load(cpu, file.gguf, asked); });
}

/// Of the target's cache, as far as it is known before loading.
int context_of(const ModelSettings& settings, const fd::ModelConfig& config) {
  return settings.n_ctx > 0 ? settings.n_ctx : default_context(config.n_ctx);
}

std::string isa_of(const fd::Cpu& cpu) { return std::string(fd::cpu::name_of(cpu.isa())); }

std::unique_ptr<Target> load_target(fd::Cpu& cpu, const ModelFile& file,
                                    const ModelSettings& settings) {
  if (!settings.on_gpu) return on_cpu(load_on_cpu(cpu, file, settings.keep_packed), isa_of(cpu));
  return load(file, file.options,
              [&](const fd::LoadOptions& asked) { return load_on_gpu(file.gguf, asked); });
}

std::unique_ptr<Draft> load_draft(fd::Cpu& cpu, const std::optional<ModelFile>& file,
                                  const ModelSettings& settings) {
  if (!file) return nullptr;
  if (!settings.draft_on_gpu) {
    return draft_on_cpu(load_on_cpu(cpu, *file, settings.keep_packed), isa_of(cpu));
  }
  return load(*file, file->options,
              [&](const fd::LoadOptions& asked) { return load_draft_on_gpu(file->gguf, asked); });
}

bool same_file(const ModelFile& a, const ModelFile& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a.path, b.path, ignored);
}

/// What models take of the processor's memory and of a GPU's.
class Room {
 public:
  /// @param logit_rows  of a pass, those that hand out all logits
  /// @param need        what is known of it without a survey
  /// @errors what cannot run there
  void add(const Survey& survey, int logit_rows, bool on_gpu, GpuNeed need) {
    check_cache_formats(need.formats, survey.config, need.of, on_gpu);
    if (on_gpu) check_gpu_limits(survey.config, need.of);
    need.pass_bytes = survey.pass_bytes(fd::Options().prefill_block, logit_rows);
    // On a GPU, too: what a pass hands over comes into the memory of the processor.
    bytes_ += need.pass_bytes;
    if (!on_gpu) {
      ++n_models_;
      bytes_ += static_cast<double>(survey.weight_bytes) +
                survey.cache_bytes(need.n_ctx, need.formats, need.sinks);
      return;
    }
    need.config = survey.config;
    need.weight_bytes = static_cast<double>(survey.weight_bytes);
    on_gpu_.push_back(std::move(need));
  }

  /// @errors kDevice, kOutOfMemory
  void require(int n_ctx) const {
    if (!on_gpu_.empty()) require_gpu(on_gpu_);
    const std::string weights = "weights and a context of " + std::to_string(n_ctx) +
                                (n_models_ > 1 ? " for two models" : "");
    require_memory(bytes_, n_models_ > 0 ? weights : "what a pass on a GPU hands over",
                   "a smaller context (-c) or a smaller model");
  }

 private:
  int n_models_ = 0;  // on the processor
  double bytes_ = 0;  // of the processor's memory
  std::vector<GpuNeed> on_gpu_;
};

/// Refuse what cannot fit before half of it is read: that takes seconds, and then the system ends
/// the program without a word.
void require_room(const ModelFile& target, const std::optional<ModelFile>& draft,
                  const ModelSettings& settings) {
  const Survey need = target.survey(settings.on_gpu);
  if (settings.check) settings.check(need.config);
  const int n_ctx = context_of(settings, need.config);
  Room room;
  // A verification may ask for the logits of every node.
  room.add(
      need, fd::DraftTree::kMaxNodes, settings.on_gpu,
      {.formats = settings.cache, .n_ctx = n_ctx, .sinks = settings.sinks, .rows = settings.rows});
  if (draft) {
    // Its context as draft_context() has it, which asks the loaded model.
    const Survey extra = draft->survey(settings.draft_on_gpu);
    room.add(extra, 1, settings.draft_on_gpu,
             {.formats = settings.draft_cache,
              .n_ctx = std::min(n_ctx, int{extra.config.n_ctx}),
              .of = "-draft"});
  }
  room.require(n_ctx);
}

}  // namespace

std::unique_ptr<Draft> load_draft_copy(Models& models, const std::filesystem::path& path,
                                       const fd::LoadOptions& options) {
  ModelFile file("draft model ", path);
  file.options = options;
  require_memory(static_cast<double>(file.survey(false).weight_bytes),
                 "another copy of the draft model", "a smaller one");
  return draft_on_cpu(load_on_cpu(models.cpu, file, false), isa_of(models.cpu));
}

/// Both are opened and looked at before one of them is loaded, so that what cannot work is told at
/// once.
struct Models::Files {
  explicit Files(const ModelSettings& settings) : target("", settings.target) {
    if (!settings.draft.empty()) {
      draft.emplace("draft model ", settings.draft);
      draft->options = settings.draft_options.value_or(fd::drafting_options(draft->gguf));
      check_own_file(settings.draft_options.has_value());
    }
    require_room(target, draft, settings);
  }

  /// Mostly a mistake. Who means it says what cheaper copy of the target is to draft.
  void check_own_file(bool as_asked) const {
    if (!same_file(target, *draft)) return;
    if (as_asked && (draft->options.requantize || draft->options.head_tokens > 0)) return;
    throw UsageError("the target's own file as draft model", "a smaller model",
                     "a drafted token would cost about what one of the target costs; "
                     "--quantize-draft q4_0 makes a smaller copy of it");
  }

  Clock::time_point begin = Clock::now();  // first: to open files is a part of loading
  ModelFile target;
  std::optional<ModelFile> draft;
};

// The files are closed behind it: all weights are in memory then.
Models::Models(const ModelSettings& settings) : Models(settings, Files(settings)) {}

void Models::print_note() const {
  if (draft && !same_vocabulary())
    std::cerr << "foredraft: the draft model has another tokenizer; its drafts are translated\n";
}

Model* Models::target_on_cpu() const {
  auto* const there = dynamic_cast<ModelOn<Model, Target>*>(target_.get());
  return there == nullptr ? nullptr : &there->model;
}

Models::~Models() = default;

int Models::draft_context(int n_ctx) const { return std::min(n_ctx, int{draft->shape().n_ctx}); }

bool Models::same_vocabulary() const {
  return !fd::first_difference(target.info().vocabulary, draft->info().vocabulary);
}

// The draft model first: it is the smaller one, and the one whose options its file may refuse.
// Where no model runs on the processor, more threads than one would only wait.
Models::Models(const ModelSettings& settings, const Files& files)
    : cpu({.threads = settings.on_cpu() ? settings.threads : 1, .isa = settings.isa}),
      draft(load_draft(cpu, files.draft, settings)),
      target_(load_target(cpu, files.target, settings)),
      target(*target_),
      load_seconds(std::chrono::duration<double>(Clock::now() - files.begin).count()) {}

}  // namespace cli
