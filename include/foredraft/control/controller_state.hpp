#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/control/acceptance_estimate.hpp>
#include <foredraft/control/answer_lengths.hpp>
#include <foredraft/control/pass_cost.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/core/table_payload.hpp>

namespace foredraft::inline v0 {

/// What a controller has learned from the texts so far, as plain data.
///
/// Two parts with different lives. What is accepted, and how long answers are, belongs to models
/// and texts, and holds on any machine. What passes and drafters cost holds for one machine, number
/// of threads and pair of models: `setup` names these in the caller's own words, and who finds
/// another setup in a file keeps the first part and forgets the second.
/// @see ControlledDrafters::learned
struct ControllerState {
  static constexpr double kMostDoubt = 16;
  static constexpr std::size_t kMostDrafters = 256;
  static constexpr std::size_t kLongestName = 1024;  // of a drafter, or of the setup @units bytes

  /// One drafter, known by its name: its place in a chain may change.
  struct Drafter {
    std::string name = {};
    AcceptanceEstimate::State accepted = {};
    double benefit = 0;  ///< accepted tokens a round, lately
    double width = 1;    ///< nodes to verify, a level

    // Costs. 0 seconds: not measured.
    std::int64_t asked = 0;
    double seconds = 0;       ///< of all that it was asked
    double ask_seconds = 0;   ///< a proposal without a model
    double step_seconds = 0;  ///< a level of a draft with one ...
    double read_seconds = 0;  ///< ... and a token of its backlog
    double doubt = 1;         ///< what reading has to bring more, because it has brought a loss
    int interval = 4;         ///< rounds between two looks at one that does not pay ...
    int waited = 0;           ///< ... and those since the last look

    friend bool operator==(const Drafter&, const Drafter&) = default;
  };

  std::vector<Drafter> drafters = {};
  AnswerLengths::Last answers = {};  ///< the last texts
  std::int64_t n_answers = 0;        ///< of all texts
  double recent_value = 0;  ///< tokens a round that drafters without a model promise, lately

  std::string setup = {};       ///< what the costs hold for
  PassCost::State passes = {};  ///< a pass of the target
  /// Tokens of the last rounds, and their time.
  struct Growth {
    double tokens = 0;
    double seconds = 0;

    friend bool operator==(const Growth&, const Growth&) = default;
  };
  Growth recent = {};
  Growth recent_slow = {};  ///< of those in which drafters without a model promised little

  friend bool operator==(const ControllerState&, const ControllerState&) = default;

  /// Null where there is none of that name.
  const Drafter* drafter(std::string_view name) const noexcept {
    for (const Drafter& d : drafters) {
      if (d.name == name) return &d;
    }
    return nullptr;
  }
  /// Costs have to be measured again, and drafters that did not pay get another look.
  void forget_costs() {
    setup.clear();
    passes = {};
    recent = recent_slow = {};
    for (Drafter& d : drafters) {
      d.asked = 0;
      d.seconds = d.ask_seconds = d.step_seconds = d.read_seconds = 0;
      d.width = Drafter().width;  // rows that nobody has measured would not be tried
      d.doubt = Drafter().doubt;
      d.interval = Drafter().interval;
      d.waited = 0;
    }
  }

  /// As a file with the frame of saved_table.hpp, of kind kController.
  /// @errors as write_table; kInvalidOption for what load would refuse
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const;

  /// @errors as read_table; kCorruptFile for numbers that no controller can have learned
  static ControllerState load(std::istream& in, const VocabularyFingerprint& vocabulary);
};

namespace detail {

/// Hands every number of a state to `visit(value, least, most, name)`, in the order of the file:
/// what is written, read and checked is the same list.
///
/// The bounds let arithmetic with any such state end in finite numbers; they are wider than what a
/// controller on any real machine learns.
template <typename State, typename Visit>
void visit_numbers(State& state, Visit visit) {
  constexpr double kMostSeconds = 1e9;
  constexpr double kLeastSeconds = 1e-12;  // a rate is 1 / seconds
  constexpr double kMostTokens = 1e9;
  constexpr std::int64_t kMostTimes = std::int64_t{1} << 52;  // a double holds it exactly
  // Counts of a memory that keeps 1 - 1/n of itself stay below n; n is 740 at most. Not more were
  // accepted than tried, but for the last bits.
  const auto visit_count = [&](auto& count, std::string_view name) {
    visit(count.tried, 0.0, 1000.0, name);
    visit(count.accepted, 0.0, count.tried * (1 + 1e-9), name);
  };
  for (auto& d : state.drafters) {
    visit_count(d.accepted.all, "trials");
    for (auto& c : d.accepted.classes) {
      visit_count(c.all, "trials of a confidence");
      for (auto& count : c.depths) visit_count(count, "trials of a confidence and depth");
    }
    for (auto& count : d.accepted.levels) visit_count(count, "trials of a depth");
    visit_count(d.accepted.lately, "trials lately");
    visit(d.accepted.lately_expected, 0.0, d.accepted.lately.tried * (1 + 1e-9), "expected tokens");
    visit(d.accepted.better, 0.0, 10.0, "odds of acceptance");
    visit(d.benefit, 0.0, kMostTokens, "accepted tokens a round");
    visit(d.width, 0.0, static_cast<double>(DraftTree::kMaxNodes), "nodes a level");
    visit(d.asked, std::int64_t{0}, kMostTimes, "times that a drafter was asked");
    visit(d.seconds, 0.0, kMostSeconds, "seconds of a drafter");
    visit(d.ask_seconds, 0.0, kMostSeconds, "seconds of a proposal");
    visit(d.step_seconds, 0.0, kMostSeconds, "seconds of a drafted token");
    visit(d.read_seconds, 0.0, kMostSeconds, "seconds of a token that is read");
    visit(d.doubt, 1.0, ControllerState::kMostDoubt, "doubt in a drafter");
    visit(d.interval, 1, 1 << 20, "rounds between two looks");
    visit(d.waited, 0, 1 << 20, "rounds since the last look");
  }
  constexpr auto kMostLength = std::numeric_limits<std::int32_t>::max();
  for (auto& answer : state.answers) {
    visit(answer.prompt, std::int32_t{0}, kMostLength, "tokens of a prompt");
    visit(answer.length, std::int32_t{0}, kMostLength, "tokens of an answer");
  }
  visit(state.n_answers, std::int64_t{0}, kMostTimes, "number of answers");
  visit(state.recent_value, -kMostTokens, kMostTokens, "tokens that drafts promise");
  for (auto& band : state.passes) {
    for (auto& mean : band) {
      visit(mean.samples, 0, PassCost::kMostSamples, "measured passes");
      const bool measured = mean.samples > 0;
      visit(mean.seconds, measured ? kLeastSeconds : 0.0, measured ? kMostSeconds : 0.0,
            "seconds of a pass");
    }
  }
  for (auto* growth : {&state.recent, &state.recent_slow}) {
    visit(growth->tokens, 0.0, kMostTokens, "tokens of the last rounds");
    visit(growth->seconds, growth->tokens > 0 ? kLeastSeconds : 0.0, kMostSeconds,
          "seconds of the last rounds");
  }
}

}  // namespace detail

/// A controller can go on from there, and all it computes stays finite.
/// @errors kInvalidOption where a number is none, or out of its range
inline void check(const ControllerState& state) {
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw Error(ErrorCode::kInvalidOption, "a controller's state with " + found, expected,
                "take one from ControlledDrafters::learned or ControllerState::load");
  };
  if (state.drafters.size() > ControllerState::kMostDrafters) {
    refuse(std::to_string(state.drafters.size()) + " drafters",
           "at most " + std::to_string(ControllerState::kMostDrafters));
  }
  std::size_t longest = state.setup.size();
  for (const auto& d : state.drafters) {
    longest = std::max(longest, d.name.size());
    if (state.drafter(d.name) != &d) refuse("two drafters of one name", "names of their own");
  }
  if (longest > ControllerState::kLongestName) {
    refuse("a name of " + std::to_string(longest) + " bytes",
           "at most " + std::to_string(ControllerState::kLongestName));
  }
  detail::visit_numbers(state, [&](const auto& value, auto least, auto most, auto name) {
    if (value >= least && value <= most) return;  // not so for NaN
    refuse(std::string(name) + " " + std::to_string(value),
           std::to_string(least) + " to " + std::to_string(most));
  });
}

inline void ControllerState::save(std::ostream& out,
                                  const VocabularyFingerprint& vocabulary) const {
  check(*this);
  PayloadWriter payload;
  const auto put_text = [&payload](const std::string& text) {
    payload.put(static_cast<std::uint32_t>(text.size()));
    payload.append(std::as_bytes(std::span(text)));
  };
  put_text(setup);
  payload.put(static_cast<std::uint32_t>(drafters.size()));
  for (const Drafter& d : drafters) put_text(d.name);
  detail::visit_numbers(*this, [&](const auto& value, auto, auto, auto) {
    if constexpr (std::integral<std::remove_cvref_t<decltype(value)>>) {
      payload.put(value);
    } else {
      payload.put(std::bit_cast<std::uint64_t>(value));
    }
  });
  write_table(out, {TableKind::kController, vocabulary, std::move(payload).bytes()});
}

inline ControllerState ControllerState::load(std::istream& in,
                                             const VocabularyFingerprint& vocabulary) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;  // 256 drafters with long names
  const SavedTable saved = read_table(in, TableKind::kController, vocabulary, kMostBytes);
  PayloadReader reader(saved.payload, saved.vocabulary.n_vocab);
  const auto take_text = [&reader](std::string_view what) {
    const auto size = reader.take_within<std::uint32_t>(0, kLongestName, what);
    std::string text;
    for (std::uint32_t i = 0; i < size; ++i) text += static_cast<char>(reader.take<char>(what));
    return text;
  };
  ControllerState state;
  state.setup = take_text("length of the setup's name");
  const auto n = reader.take_within<std::uint32_t>(0, kMostDrafters, "number of drafters");
  for (std::uint32_t i = 0; i < n; ++i) {
    std::string name = take_text("length of a drafter's name");
    if (state.drafter(name) != nullptr) throw reader.error("a drafter twice", "once");
    state.drafters.push_back({.name = std::move(name)});
  }
  detail::visit_numbers(state, [&](auto& value, auto least, auto most, auto name) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::integral<T>) {
      value = reader.take_within<T>(least, most, name);
    } else {
      value = std::bit_cast<double>(reader.take<std::uint64_t>(name));
      if (!(value >= least && value <= most)) {
        throw reader.error(std::string(name) + " " + std::to_string(value),
                           std::to_string(least) + " to " + std::to_string(most));
      }
    }
  });
  reader.end();
  return state;
}

}  // namespace foredraft::inline v0
