#include "state_file.hpp"

#include <algorithm>
#include <iostream>
#include <istream>
#include <ostream>
#include <system_error>
#include <utility>

#include "cache_format.hpp"
#include "draft.hpp"
#include "layer_list.hpp"
#include "ngram_file.hpp"
#include "processor.hpp"
#include "saved_file.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

/// Which file it is, wherever it lies. Two with the same name and size are taken for the same.
std::string describe(const std::filesystem::path& model) {
  std::error_code ignored;
  return model.stem().string() + " of " +
         std::to_string(std::filesystem::file_size(model, ignored)) + " bytes";
}

}  // namespace

std::string StateFile::describe_draft(const Models& models, const Run& run) {
  const Method& method = run.method;
  const DraftArguments& load = run.draft_load;
  const std::vector<int>& tree = method.tree;
  std::string text = describe(run.draft);
  if (method.translation != fd::Translation::kAuto) {
    text += ", " + kTranslations[static_cast<std::size_t>(method.translation)];
  }
  if (!load.format.empty()) text += ", " + load.format;
  // Without options a model that is mapped stays as it is, while another one is made smaller.
  if (load.format.empty() && load.n_vocab == 0 && run.maps_draft) text += ", as it is";
  if (load.n_vocab > 0) text += ", " + std::to_string(load.n_vocab) + " tokens";
  if (!load.counts_file.empty()) text += " by " + describe(load.counts_file);
  if (method.draft_law) text += ", temperature " + std::to_string(method.draft_law->temperature);
  if (method.draft_cache != fd::RowFormats{}) text += ", cache " + spelled(method.draft_cache);
  for (std::size_t i = 0; i < tree.size(); ++i) {
    text += (i == 0 ? ", tree " : "-") + std::to_string(tree[i]);
  }
  if (drafts_best_first(models, method)) text += ", best-first trees";
  if (models.draft->on_gpu()) text += ", " + models.draft->arithmetic();
  return text;
}

std::string StateFile::describe_self(const Models& models, const Method& method) {
  return kSelf + " " + spelled_layers(self_layers(models, method));
}

StateFile::StateFile(std::string file, const Models& models, const Run& run)
    : file_(std::move(file)) {
  if (file_.empty()) return;
  vocabulary_ = fingerprint(models.target.tokenizer());
  setup_ = describe(run.target) + ", cache " + spelled(run.method.cache) + ", " + processor_name() +
           ", " + models.isa() + ", " + std::to_string(models.cpu.threads()) + " threads";
  self_ = describe_self(models, run.method);
  if (!run.draft.empty()) draft_model_ = describe_draft(models, run);
  if (!std::filesystem::exists(file_)) return;
  known_ = read_saved(file_, "a file of --spec-state",
                      "name one that can be read, or one that does not exist",
                      [&](std::istream& in) { return fd::ControllerState::load(in, vocabulary_); });
  if (known_.setup == setup_) return;
  std::cerr << "foredraft: costs in '" << visible(file_)
            << "' are those of another set-up and are measured again\n";
  known_.forget_costs();
}

/// A drafter with a model is told from one with another model.
std::string StateFile::name_in_file(const std::string& drafter) const {
  if (drafter == kSelf) return self_;
  const DrafterKind* kind = drafter_named(drafter);
  return kind != nullptr && kind->needs_model ? drafter + " " + draft_model_ : drafter;
}

void StateFile::give_to(Session& session) const {
  if (file_.empty()) return;
  fd::ControllerState own = known_;
  own.drafters.clear();
  for (const std::string& name : session.drafter_names()) {
    const auto* drafter = known_.drafter(name_in_file(name));
    if (drafter == nullptr) continue;
    own.drafters.push_back(*drafter);
    own.drafters.back().name = name;  // by which the session knows it
  }
  session.restore(own);
}

void StateFile::keep(Session& session) const {
  if (file_.empty()) return;
  fd::ControllerState state = session.controller_state();
  state.setup = setup_;
  for (auto& drafter : state.drafters) drafter.name = name_in_file(drafter.name);
  // Those that did not take part stay in the file, as far as it has room.
  for (const auto& drafter : known_.drafters) {
    const bool room = state.drafters.size() < fd::ControllerState::kMostDrafters;
    if (room && state.drafter(drafter.name) == nullptr) state.drafters.push_back(drafter);
  }
  write_saved(file_, [&](std::ostream& out) { state.save(out, vocabulary_); });
}

}  // namespace cli
