#pragma once

#include <filesystem>
#include <string>

#include <foredraft/control/controller_state.hpp>

#include "draft_arguments.hpp"
#include "models.hpp"
#include "session.hpp"
#include "speculation.hpp"

namespace cli {

/// --spec-state FILE: what a controller learned, from run to run.
///
/// Acceptance stays wherever the vocabulary is the same. Costs hold for one target, cache,
/// processor, instruction set and number of threads; those of another set-up are measured again. A
/// draft model is known by its file and by what became of it while it was loaded, layers that draft
/// by their numbers, so several may use one file, and what the file says of drafters that do not
/// take part stays in it.
class StateFile {
 public:
  struct Run {
    const std::filesystem::path& target;
    const std::filesystem::path& draft;  ///< empty: none
    const DraftArguments& draft_load;
    bool maps_draft;  ///< --keep-packed is about the draft model
    const Method& method;
  };

  /// Reads the file, where there is one. @param file  empty: nothing is read or written
  /// @errors kIo and what ControllerState::load throws, with the name of the file
  StateFile(std::string file, const Models& models, const Run& run);

  /// A draft model, what became of it while it was loaded, and how it drafts, on a GPU also where.
  static std::string describe_draft(const Models& models, const Run& run);

  /// The layers of the target that draft under kSelf.
  static std::string describe_self(const Models& models, const Method& method);

  void give_to(Session& session) const;
  /// Writes as write_saved. @errors kIo
  void keep(Session& session) const;

 private:
  std::string name_in_file(const std::string& drafter) const;

  std::string file_;
  fd::VocabularyFingerprint vocabulary_;
  std::string setup_;
  std::string draft_model_;
  std::string self_;
  fd::ControllerState known_;
};

}  // namespace cli
