#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/control/controller_state.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/load.hpp>
#include <foredraft/model/load_options.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "draft.hpp"
#include "draft_arguments.hpp"
#include "memory.hpp"
#include "model_path.hpp"
#include "models.hpp"
#include "output.hpp"
#include "prompts.hpp"
#include "session.hpp"
#include "survey.hpp"
#include "terminal.hpp"
#include "tune_report.hpp"
#include "tune_search.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string model;
  std::string draft;
  std::string file;
  int max_tokens = 128;
  int max_prompts = 12;
  int rounds = 3;
  bool raw = false;
  bool json = false;
  DraftArguments draft_load;
  MachineArguments machine;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// @param copy  not the default
fd::LoadOptions load_options_of(const DraftCopy& copy) {
  return *DraftArguments{.format = copy.quantize, .n_vocab = copy.vocab}.options(false);
}

/// What `generate` would make of its options.
Method method_of(const Way& way, int n_ctx) {
  std::string names = way.plain ? kNone : way.drafters.empty() ? kAuto : "";
  for (const std::string& name : way.drafters) names += (names.empty() ? "" : ",") + name;
  return {.speculation = names,
          .rule = rules().front(),
          .n_ctx = n_ctx,
          .with_model = way.with_model,
          .tree = way.tree,
          .best_first = way.depth == 0,
          .lookup_min = way.lookup_min,
          .ngram_sizes = {.n = way.ngram_size > 0 ? std::optional(way.ngram_size) : std::nullopt}};
}

/// Measures answers, and holds every text to that of plain decoding.
///
/// A lap begins with sessions that remember no text: else a drafter that remembers would have seen
/// the prompts of the lap before. What a controller learned of costs and acceptance goes on from
/// lap to lap, as in a program that has run for a while.
class Laboratory {
 public:
  /// @param draft  file of the draft model, of which ways may ask for other copies
  Laboratory(Models& models, std::filesystem::path draft,
             std::vector<std::vector<fd::TokenId>> prompts, int n_ctx, int max_tokens)
      : models_(models),
        draft_(std::move(draft)),
        prompts_(std::move(prompts)),
        n_ctx_(n_ctx),
        max_tokens_(max_tokens) {}

  Lap measure(const std::vector<Way>& ways, const std::vector<int>& chosen) {
    struct Running {
      std::unique_ptr<Session> session;
      std::string name;
    };
    std::vector<Running> running;
    keep_copies(ways);
    for (const Way& way : ways) {
      // Of the draft model that auto may do without, options() says nothing.
      const std::string name = way.options() + (way.with_model ? "" : " without model");
      running.push_back({session_of(way), name});
      if (const auto known = learned_.find(name); known != learned_.end()) {
        running.back().session->restore(known->second);
      }
    }
    Lap lap(ways.size(), std::vector<double>(chosen.size()));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      for (std::size_t k = 0; k < ways.size(); ++k) {
        const std::size_t way = (i + k) % ways.size();  // none of them is always the first
        lap[way][i] = answer(*running[way].session, ways[way], chosen[i]);
        if (bar_) bar_->show(fd::idx(answers_), total_);
      }
    }
    for (const Running& one : running) learned_[one.name] = one.session->controller_state();
    return lap;
  }

  /// Plain answers to these prompts, which say what their texts are. @return seconds of the first
  double plain(int first, int end) {
    if (first == end) return 0;
    std::vector<int> chosen(fd::idx(end - first));
    std::iota(chosen.begin(), chosen.end(), first);
    return measure({{.plain = true}}, chosen)[0][0];
  }

  void expect(int answers) {
    total_ = fd::idx(answers_ + answers);
    bar_.emplace("tuning");
  }
  void finish() { bar_.reset(); }
  int answers() const { return answers_; }

 private:
  /// Copies of the draft model that no way asks for take memory for nothing.
  void keep_copies(const std::vector<Way>& ways) {
    std::erase_if(copies_, [&](const auto& copy) {
      return std::ranges::find(ways, copy.first, &Way::copy) == ways.end();
    });
  }

  /// Drafters refer to the draft model that is there when they are made.
  std::unique_ptr<Session> session_of(const Way& way) {
    if (way.copy == DraftCopy()) return make_session(models_, method_of(way, n_ctx_));
    std::unique_ptr<Draft>& copy = copies_[way.copy];
    if (!copy) copy = load_draft_copy(models_, draft_, load_options_of(way.copy));
    struct Exchanged {
      Exchanged(std::unique_ptr<Draft>& one, std::unique_ptr<Draft>& other) : a(one), b(other) {
        a.swap(b);
      }
      ~Exchanged() { a.swap(b); }
      std::unique_ptr<Draft>&a, &b;
    };
    const Exchanged exchanged(models_.draft, copy);
    return make_session(models_, method_of(way, n_ctx_));
  }

  double answer(Session& session, const Way& way, int i) {
    fd::Options options{.max_tokens = max_tokens_};
    if (way.depth > 0) options.n_draft = way.depth;
    if (way.nodes > 0) options.n_nodes = way.nodes;
    const std::size_t index = fd::idx(i);
    const double begin = seconds_now();
    const fd::Result result = session.generate(prompts_[index], options, [](const auto&) {});
    const double seconds = seconds_now() - begin;
    ++answers_;
    const auto [expected, first] = texts_.try_emplace(index, result.tokens);
    if (!first && expected->second != result.tokens) {
      throw fd::Error(fd::ErrorCode::kInvalidDraft,
                      "another text for prompt " + std::to_string(i + 1) + " with" +
                          (way.options().empty() ? " auto" : way.options()),
                      "that of plain decoding", "drafts must not change a text: please report it");
    }
    return std::max(seconds, 1e-9);  // ratios divide by it
  }

  Models& models_;
  std::filesystem::path draft_;
  std::map<DraftCopy, std::unique_ptr<Draft>> copies_;
  std::vector<std::vector<fd::TokenId>> prompts_;
  int n_ctx_;
  int max_tokens_;
  int answers_ = 0;
  std::size_t total_ = 0;
  std::optional<ProgressBar> bar_;
  std::map<std::size_t, std::vector<fd::TokenId>> texts_;
  std::map<std::string, fd::ControllerState> learned_;
};

/// As a shell reads it.
std::string quoted(const std::string& word) {
  const bool harmless = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string("/._-+,:@%=").find(static_cast<char>(c)) != std::string::npos;
  });
  if (harmless) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string command_of(const Arguments& a, const Space& space, const Way& way) {
  std::string text = "foredraft generate -m " + quoted(a.model);
  if (a.raw) text += " --raw";
  if (space.uses_model(way)) {
    text += " -md " + quoted(a.draft);
    if (!a.draft_load.format.empty()) text += " --quantize-draft " + a.draft_load.format;
    if (a.draft_load.n_vocab > 0) {
      text += " --draft-vocab " + std::to_string(a.draft_load.n_vocab);
    }
    if (!a.draft_load.counts_file.empty()) {
      text += " --draft-vocab-counts " + quoted(a.draft_load.counts_file);
    }
  }
  if (a.machine.keep_packed) text += " --keep-packed";
  if (a.machine.threads > 0) text += " -t " + std::to_string(a.machine.threads);
  if (!a.machine.isa_name.empty()) text += " --isa " + a.machine.isa_name;
  return text + way.options();
}

std::string duration(double seconds) {
  return seconds < 100 ? formatted("%.0f s", seconds) : formatted("%.0f min", seconds / 60);
}

/// Tokens of all prompts, and a context that each of them has room in with its answer.
struct Encoded {
  std::vector<std::vector<fd::TokenId>> prompts;
  int n_ctx = 0;
};
Encoded encode(const Models& models, std::vector<std::string> texts, const Arguments& a) {
  Encoded encoded;
  std::size_t longest = 0;
  for (std::string& text : texts) {
    encoded.prompts.push_back(encode_prompt(models.target.tokenizer(), std::move(text), a.raw));
    longest = std::max(longest, encoded.prompts.back().size());
  }
  const std::size_t trained = fd::idx(models.target.config().n_ctx);
  if (longest >= trained) {
    throw fd::Error(
        fd::ErrorCode::kContextOverflow, "a prompt of " + std::to_string(longest) + " tokens",
        "less than the " + std::to_string(trained) + " of the model's context", "shorter prompts");
  }
  encoded.n_ctx = static_cast<int>(std::min(longest + fd::idx(a.max_tokens), trained));
  return encoded;
}

/// Copies of a draft model of other sizes than the one that suits its file, as far as there is memory for
/// all of them: as it is, in 8 bits, with all of its head, with half of what is left of it.
std::vector<DraftCopy> copies_of(const std::filesystem::path& path) {
  const fd::Gguf file = fd::Gguf::open(path);
  const fd::LoadOptions usual = fd::drafting_options(file);
  const std::string format = usual.requantize ? "q4_0" : DraftArguments::kAsItIs;
  std::vector<DraftCopy> candidates{{DraftArguments::kAsItIs, 0}, {"q8_0", usual.head_tokens}};
  if (usual.head_tokens > 0) {
    candidates.push_back({format, 0});
    candidates.push_back({format, usual.head_tokens / 2});
  }
  std::set<std::size_t> sizes{survey(file, usual).weight_bytes};
  std::vector<DraftCopy> copies;
  double all = 0;
  for (DraftCopy& copy : candidates) {
    try {
      const std::size_t bytes = survey(file, load_options_of(copy)).weight_bytes;
      if (sizes.contains(bytes)) continue;
      require_memory(all + static_cast<double>(bytes), "copies of the draft model", "");
      all += static_cast<double>(bytes);
      sizes.insert(bytes);
      copies.push_back(std::move(copy));
    } catch (const fd::Error&) {  // it would have no effect on this file, or does not fit
    }
  }
  return copies;
}

/// What there is to try with these models.
/// @param draft  file of the draft model, where other copies of it may be made
Space space_of(const Models& models, const std::filesystem::path& draft) {
  Space space{.draft_model = models.draft != nullptr,
              .trees = models.draft && models.same_vocabulary()};
  if (!draft.empty()) space.copies = copies_of(draft);
  for (const DrafterKind& kind : drafters()) {
    if (kind.fits != nullptr && !kind.fits(models)) continue;
    space.kinds.push_back(
        {kind.name, kind.in_auto, kind.needs_model, kind.takes_sizes, kind.takes_lookup_min});
  }
  return space;
}

int run(const Arguments& a) {
  a.draft_load.check(!a.draft.empty());
  const auto isa = a.machine.isa();
  const auto target = find_model(a.model);
  const auto draft = a.draft.empty() ? std::filesystem::path() : find_model(a.draft);
  std::vector<std::string> texts = read_prompts(a.file);
  const std::size_t there = texts.size();
  texts.resize(std::min(there, fd::idx(a.max_prompts)));
  Models models({.target = target,
                 .draft = draft,
                 .draft_options = a.draft_load.options(a.machine.keep_packed),
                 .threads = a.machine.threads,
                 .isa = isa,
                 .keep_packed = a.machine.keep_packed});
  models.print_note();
  Encoded encoded = encode(models, std::move(texts), a);
  const int n_prompts = static_cast<int>(encoded.prompts.size());

  // Who says what is to become of the draft model, or has it mapped, has chosen its copy.
  const bool free_copy = !a.draft_load.options(a.machine.keep_packed);
  const Space space = space_of(models, free_copy ? draft : std::filesystem::path());
  const int expected = most_answers(space, n_prompts, a.rounds) + n_prompts;
  Laboratory laboratory(models, draft, std::move(encoded.prompts), encoded.n_ctx, a.max_tokens);
  const double begin = seconds_now();
  // How long all of it will take is told by the first answer, before the user waits for the rest.
  const double first = laboratory.plain(0, 1);
  std::cerr << "foredraft: " << n_prompts << " of " << there << " prompts, at most " << expected
            << " answers, some " << duration(expected * first) << '\n';
  laboratory.expect(expected - 1);
  laboratory.plain(1, n_prompts);
  const Found found = search(space, n_prompts, a.rounds,
                             [&](const std::vector<Way>& ways, const std::vector<int>& chosen) {
                               return laboratory.measure(ways, chosen);
                             });
  laboratory.finish();

  const Way& advised = found.beats_auto() ? found.best : Way{};
  const TuneReport report{.found = found,
                          .command = command_of(a, space, advised),
                          .prompts = n_prompts,
                          .answers = laboratory.answers(),
                          .seconds = seconds_now() - begin,
                          .settings = {{"max_tokens", a.max_tokens},
                                       {"rounds", a.rounds},
                                       {"n_ctx", encoded.n_ctx},
                                       {"threads", models.cpu.threads()},
                                       {"isa", models.isa()}}};
  if (a.json) {
    print_json(report.json());
  } else {
    write_out(report.text());
  }
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "tune",
      "Look for the options that answer your prompts soonest. It measures whole answers at "
      "temperature 0 in turns against plain decoding and the default, and says so where nothing "
      "beats the default. Nothing else should run meanwhile.");
  const auto a = std::make_shared<Arguments>();
  add_model_option(*command, a->model);
  require_text(add_value(*command, "--model-draft FILE|NAME", a->draft,
                         "draft model, a file or a name; it is found out whether it pays"));
  a->draft_load.add_to(*command);
  add_prompts_option(*command, a->file);
  command->add_flag("--raw", a->raw, "no chat format: the prompts as they are");
  add_number(*command, "-n,--predict,--max-tokens N", a->max_tokens, 1, 1 << 20,
             "most tokens of an answer [128]");
  add_number(*command, "--max-prompts N", a->max_prompts, 1, 10000,
             "the first N prompts of the file [12]");
  add_number(*command, "--rounds N", a->rounds, 1, 1000,
             "how often all prompts are answered to compare what was found [3]");
  a->machine.add_to(*command);
  add_json_flag(*command, a->json);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
