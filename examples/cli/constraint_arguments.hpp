#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/piece_trie.hpp>
#include <foredraft/core/constraint.hpp>
#include <foredraft/io/chat_format.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "usage.hpp"

namespace cli {

/// The pieces of a vocabulary, for all constraints of its texts.
std::shared_ptr<const fd::PieceTrie> pieces_of(const fd::Tokenizer& tokenizer);

/// The answers that a grammar allows.
/// @param chat  turns of the prompt, or null: a model that marks what it thinks may do so before an
/// answer
/// @errors kInvalidConstraint
fd::AnyConstraint constrained(fd::Grammar grammar, const fd::Tokenizer& tokenizer,
                              std::shared_ptr<const fd::PieceTrie> pieces,
                              const fd::ChatTemplate* chat);

/// --grammar, --grammar-file, --json-schema and --regex: what the answer may be; --grammar-trigger:
/// where in it that begins.
class ConstraintArguments {
 public:
  void add_to(CLI::App& command);

  /// One of them was given.
  bool given() const noexcept;

  /// Read what was given, before any model is.
  /// @errors UsageError where it is more than one; kIo, kInvalidConstraint
  void read();

  /// For texts of that tokenizer; none where none was given.
  /// @param chat  as of constrained(). @errors kInvalidConstraint
  fd::AnyConstraint constraint(const fd::Tokenizer& tokenizer, const fd::ChatTemplate* chat) const;

 private:
  std::string grammar_text_;
  std::string grammar_file_;
  std::string schema_;
  std::string pattern_;
  std::vector<std::string> triggers_;
  bool repeat_ = false;
  std::optional<fd::Grammar> grammar_;
};

}  // namespace cli
