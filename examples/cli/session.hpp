#pragma once

#include <cstddef>
#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <foredraft/context_shift.hpp>
#include <foredraft/control/controller_state.hpp>
#include <foredraft/control/drafter_report.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/saved_snapshot.hpp>

#include "models.hpp"
#include "speculation.hpp"

namespace cli {

/// Makes texts with a decoder that it keeps from call to call: what a prompt shares with the text
/// so far (the earlier turns of a chat, the whole prompt of a further sample) is not computed again,
/// unless a layer's window has moved on from there.
///
/// The types of cache, drafter and acceptance rule are chosen at run time; behind this interface
/// nobody sees them.
class Session {
 public:
  using Emit = std::function<void(const fd::Emitted&)>;

  virtual ~Session() = default;

  /// @errors what Decoder::generate throws
  virtual fd::Result generate(std::span<const fd::TokenId> prompt, const fd::Options& options,
                              const Emit& emit) = 0;

  /// Read a prompt that is likely to come, and generate nothing.
  virtual fd::Result read(std::span<const fd::TokenId> prompt, const fd::Options& options) = 0;

  /// All final tokens: the prompt and what was generated behind it.
  virtual std::span<const fd::TokenId> tokens() const = 0;

  /// From now on, shift a context that is full instead of ending the text.
  virtual void shift_context(fd::ContextShift shift) = 0;

  /// From now on, look for what a prompt begins with among the texts that were kept.
  /// @param bytes  for all of them
  virtual void use_store(std::size_t bytes) = 0;
  /// Keep the text so far, where there is a store.
  virtual void keep() = 0;

  /// The text so far with all that was computed for it, to go on in another process.
  /// @errors as fd::save_snapshot
  virtual void save(std::ostream& out, const fd::SnapshotOwner& owner, const std::string& note) = 0;
  struct Loaded {
    std::string note;
    bool drafters;  ///< they know what they knew; else they read the text again
  };
  /// @errors as fd::load_snapshot and Decoder::restore; until the latter nothing has changed
  virtual Loaded load(std::istream& in, const fd::SnapshotOwner& owner) = 0;

  /// Let the text so far enter what drafters learn for later texts, which a restart could keep.
  virtual void learn() = 0;

  /// What the controller knows, and to let it go on from what another one knew: between two texts.
  virtual fd::ControllerState controller_state() = 0;
  virtual void restore(const fd::ControllerState& state) = 0;  ///< @errors kInvalidOption

  /// By the origin of a drafted node.
  virtual std::vector<std::string> drafter_names() = 0;
  /// Of each drafter, as drafter_names() has them, what it did in all texts so far, and why it drafts
  /// nothing now.
  virtual std::vector<fd::DrafterReport> reports() = 0;
  /// Null where none of these names is it.
  virtual TreeDrafter* drafter(const std::string& name) = 0;
};

/// Several sessions may share the models, which have to outlive them.
/// @errors kOutOfMemory before memory is taken where the caches cannot fit; kVocabularyMismatch
///   where the draft model has another vocabulary; what the caches and the drafter throw
std::unique_ptr<Session> make_session(Models& models, const Method& method);

}  // namespace cli
