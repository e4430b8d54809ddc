#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/sampling_checks.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/sampling/history.hpp>
#include <foredraft/sampling/logit_adjustments.hpp>
#include <foredraft/sampling/logprobs.hpp>
#include <foredraft/sampling/mirostat.hpp>
#include <foredraft/sampling/row_draw.hpp>

namespace foredraft::inline v0 {

/// How one of many sequences is sampled: the members of Options that concern it.
struct SlotOptions {
  SamplingOptions sampling = {};
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  ///< keeps equal seeds apart
  int logprobs = -1;           ///< most probable tokens beside each token's own; -1: none at all
  Rng* rng = nullptr;          ///< where to draw from; null: Philox, of the seed
};

/// What a slot's row says, until the next step.
struct SlotToken {
  int slot = 0;
  TokenId token = -1;
  const Logprobs* logprobs = nullptr;  ///< of the row as it came; null where nobody asked
};

namespace detail {
struct WorkersBody {
  void operator()(int worker) const;
};
}  // namespace detail

/// Threads that share the work of a step: `run(body)` calls body(worker) once for each number below
/// `size()`, and returns when all are done. cpu::ThreadPool is one; so is any engine's pool behind
/// these two functions. The body does not throw.
template <typename W>
concept Workers = requires(W& workers, const detail::WorkersBody& body) {
  { workers.size() } -> std::convertible_to<int>;
  workers.run(body);
};

/// The thread that calls, alone.
struct OneWorker {
  static constexpr int size() noexcept { return 1; }
  template <typename Body>
  void run(Body&& body) const {
    body(0);
  }
};

/// Tokens one after the other for many sequences, each in a slot of its own: for an engine that
/// has a loop of its own, and draws one token of each row.
///
/// A token is the one that a Decoder without drafts emits for the same rows, seed and sequence, to
/// the bit, whatever the other slots do, whichever rows come together and in whatever order. (It
/// knows no target: tokens that one suppresses belong into the slot's logit_bias.) Nothing
/// drawn moves a slot before commit() says that it is final: step() may be repeated or left alone.
/// A step is one region of all workers. Rows of equal options lie side by side in it, so that what
/// options need (the index of DRY's breakers) is made once a worker, and each row is read once for
/// all transforms that its options have.
/// @cost of a row that of RowSampler::draw, of a step that of its rows over the workers; a slot has
/// a ring of the tokens that its options look back on, a worker O(n_vocab) of memory. Only add() and
/// extend() allocate.
class BatchedSampler {
 public:
  /// @param n_ctx  tokens that a text may have: what looks back on all of a text has room for these
  /// @param n_workers  most workers of a step; of more than these the others do nothing
  /// @errors kInvalidOption where there is none
  BatchedSampler(int n_vocab, int n_ctx, int n_workers = 1)
      : n_vocab_(n_vocab), n_ctx_(idx(std::max(n_ctx, 0))) {
    if (n_vocab < 1 || n_ctx < 1 || n_workers < 1) {
      detail::refuse("a sampler for " + std::to_string(n_vocab) + " tokens, texts of " +
                         std::to_string(n_ctx) + " and " + std::to_string(n_workers) + " workers",
                     "1 or more of each", "");
    }
    own_.resize(idx(n_workers));
  }

  /// A sequence that begins with `prompt`.
  /// @return its slot, the lowest that is free
  /// @errors kInvalidOption, kEmptyPrompt, kTokenOutOfRange, kContextOverflow
  int add(const SlotOptions& options, std::span<const TokenId> prompt) {
    check(options.sampling);
    if (options.logprobs < -1 || options.logprobs > n_vocab_) {
      detail::refuse("logprobs " + std::to_string(options.logprobs),
                     "-1 to the size of the vocabulary", "0 is the token alone");
    }
    if (prompt.empty()) {
      throw Error(ErrorCode::kEmptyPrompt, "a slot without tokens", "at least one token",
                  "a row of logits follows a token");
    }
    check_tokens(prompt, 0);
    Slot slot(options, group_of(options.sampling), std::min(lookback_of(options.sampling), n_ctx_));
    slot.push(prompt);
    for (Own& own : own_) own.draw.reserve(options.sampling, idx(n_vocab_), slot.text.capacity());
    auto place = std::find_if(slots_.begin(), slots_.end(), [](const auto& s) { return !s; });
    if (place == slots_.end()) place = slots_.emplace(place);
    order_.reserve(slots_.size());
    drawn_.reserve(slots_.size());
    ++groups_[idx(slot.group)].slots;
    place->emplace(std::move(slot));
    return static_cast<int>(place - slots_.begin());
  }

  /// Forget a sequence; its number may be given away again. @errors kInvalidOption for an empty slot
  void remove(int slot) {
    --groups_[idx(used(slot).group)].slots;
    slots_[idx(slot)].reset();
  }

  /// Draw the next token of each row's slot.
  /// @param rows  of different slots, any of those in use, in any order
  /// @param workers  that share the rows; the tokens are the same. Where there are several, no two
  /// slots may have one Rng of their own in common
  /// @return in the order of the rows; good until the next step, add() or remove()
  /// @errors kInvalidOption for slots or rows that do not fit; kContextOverflow for a full text;
  /// kInvalidLogits, and kInvalidConstraint where nothing is both possible and allowed, which name the
  /// slot, as does kInvalidOption where biases, bad words and the like leave no token. A step that
  /// throws has drawn nothing; the others can be stepped without that row
  template <Workers W = OneWorker>
  std::span<const SlotToken> step(std::span<const SlotRow> rows, W&& workers = {}) {
    begin(rows);
    std::atomic<std::size_t> next{0};
    const auto draw_some = [&](int worker) {
      if (idx(worker) < own_.size()) draw_until_none_is_left(rows, next, own_[idx(worker)]);
    };
    workers.run(draw_some);
    refuse_failed();
    if (next.load() < rows.size()) {
      detail::refuse("workers that left rows undone", "run(body) calls body(0), body(1) and so on",
                     "");
    }
    for (const SlotToken& drawn : drawn_) used(drawn.slot).drawn = drawn.token;
    return drawn_;
  }

  /// The token that a slot has drawn in the last step becomes part of its text. Where it has drawn
  /// none since its last commit, or the slot is empty, nothing happens.
  void commit(int slot) noexcept {
    if (!in_use(slot)) return;
    Slot& s = *slots_[idx(slot)];
    const TokenId token = std::exchange(s.drawn, -1);
    if (token < 0) return;
    s.text.push(token);
    s.mirostat = s.mirostat_behind;
  }

  /// Tokens that nobody drew follow: a longer prompt. What was drawn and not committed is forgotten.
  /// @errors kInvalidOption for an empty slot; kTokenOutOfRange, kContextOverflow
  void extend(int slot, std::span<const TokenId> tokens) {
    Slot& s = used(slot);
    check_tokens(tokens, s.text.size());
    s.push(tokens);
  }

  /// Tokens of a slot's text, which is the position of the one that comes next.
  /// @errors kInvalidOption for an empty slot
  Position position(int slot) const { return used(slot).position(); }
  /// Slots in use.
  int size() const noexcept {
    return static_cast<int>(std::count_if(slots_.begin(), slots_.end(),
                                          [](const auto& slot) { return slot.has_value(); }));
  }

 private:
  struct Slot {
    Slot(const SlotOptions& asked, int of_group, std::size_t n_text)
        : group(of_group),
          rng(asked.rng),
          philox(asked.seed, asked.sequence),
          n_logprobs(asked.logprobs),
          text(n_text) {
      logprobs.top.reserve(idx(std::max(n_logprobs, 0)));
    }
    Position position() const noexcept { return static_cast<Position>(text.size()); }
    void push(std::span<const TokenId> tokens) noexcept {
      for (const TokenId token : tokens) text.push(token);
      drawn = -1;
    }

    int group;
    Rng* rng;
    Philox philox;
    int n_logprobs;
    TokenRing text;
    Mirostat mirostat = {};  // behind the text
    // Of the last step.
    TokenId drawn = -1;
    Mirostat mirostat_behind = {};
    Logprobs logprobs = {};
  };
  /// Slots with equal options.
  struct Group {
    SamplingOptions options;
    int slots = 0;
  };

  /// What a worker has of its own, on cache lines of its own.
  struct alignas(64) Own {
    RowDraw draw;
    // Of the last step: the row that failed, as a place in the order, and why.
    std::size_t failed = 0;
    std::exception_ptr why = nullptr;
  };

  bool in_use(int slot) const noexcept {
    return slot >= 0 && idx(slot) < slots_.size() && slots_[idx(slot)];
  }
  const Slot& used(int slot) const {
    if (in_use(slot)) return *slots_[idx(slot)];
    throw Error(ErrorCode::kInvalidOption, "slot " + std::to_string(slot), "a slot in use",
                "add() says which one a sequence has");
  }
  Slot& used(int slot) { return const_cast<Slot&>(std::as_const(*this).used(slot)); }

  int group_of(const SamplingOptions& options) {
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& known) {
      return known.slots > 0 && known.options == options;
    });
    if (group == groups_.end()) {
      group = std::find_if(groups_.begin(), groups_.end(),
                           [](const Group& known) { return known.slots == 0; });
      if (group == groups_.end()) group = groups_.emplace(group);
      group->options = options;
    }
    return static_cast<int>(group - groups_.begin());
  }

  void check_tokens(std::span<const TokenId> tokens, std::size_t before) const {
    for (const TokenId token : tokens) {
      if (token >= 0 && token < n_vocab_) continue;
      throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token),
                  "a token below " + std::to_string(n_vocab_),
                  "was it made with another tokenizer?");
    }
    check_room(before + tokens.size());
  }
  /// For one more token.
  void check_room(std::size_t n_tokens) const {
    if (n_tokens < n_ctx_) return;
    throw Error(ErrorCode::kContextOverflow, "a text of " + std::to_string(n_tokens) + " tokens",
                "fewer than the " + std::to_string(n_ctx_) + " of the context",
                "end it, or make the sampler with a longer context");
  }

  /// Check the rows, and put them in an order in which equal options are neighbours.
  void begin(std::span<const SlotRow> rows) {
    drawn_.resize(rows.size());
    order_.clear();
    for (Own& own : own_) own.why = nullptr;  // of a step whose workers threw
    for (const SlotRow& row : rows) {
      if (in_use(row.slot)) slots_[idx(row.slot)]->drawn = -1;  // also where the step fails
    }
    for (const SlotRow& row : rows) {
      check_room(used(row.slot).text.size());
      if (row.logits.size() != idx(n_vocab_)) {
        detail::refuse("a row of " + std::to_string(row.logits.size()) + " logits",
                       "as many as the sampler's vocabulary has", "");
      }
      order_.push_back(order_.size());
    }
    const auto place = [&](std::size_t i) {
      return std::pair(used(rows[i].slot).group, rows[i].slot);
    };
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (i > 0 && place(order_[i]) == place(order_[i - 1])) {
        detail::refuse("two rows of slot " + std::to_string(rows[order_[i]].slot), "one a step",
                       "commit() the token of the first before the second");
      }
    }
  }

  /// Rows are taken in order, one at a time, because some cost a multiple of others.
  void draw_until_none_is_left(std::span<const SlotRow> rows, std::atomic<std::size_t>& next,
                               Own& own) noexcept {
    std::size_t i = 0;
    try {
      while ((i = next.fetch_add(1, std::memory_order_relaxed)) < order_.size()) {
        drawn_[order_[i]] = draw(rows[order_[i]], own.draw);
      }
    } catch (...) {
      own.failed = i;
      own.why = std::current_exception();
    }
  }

  /// The first row that failed: all before it were drawn, whoever was to draw them.
  void refuse_failed() {
    std::exception_ptr why;
    std::size_t first = order_.size();
    for (Own& own : own_) {
      if (own.why && own.failed < first) {
        first = own.failed;
        why = own.why;
      }
      own.why = nullptr;
    }
    if (why) std::rethrow_exception(why);
  }

  SlotToken draw(const SlotRow& row, RowDraw& draw) {
    Slot& slot = *slots_[idx(row.slot)];
    try {
      slot.mirostat_behind = slot.mirostat;
      Rng& rng = slot.rng != nullptr ? *slot.rng : slot.philox;
      const TokenId token =
          draw(groups_[idx(slot.group)].options, row, slot.text, slot.mirostat_behind, rng);
      if (slot.n_logprobs < 0) return {row.slot, token, nullptr};
      logprobs_of(row.logits, token, slot.n_logprobs, slot.logprobs);
      return {row.slot, token, &slot.logprobs};
    } catch (const Error& error) {
      throw Error(error.code(), error.found() + ", of slot " + std::to_string(row.slot),
                  error.expected(), error.hint());
    }
  }

  int n_vocab_;
  std::size_t n_ctx_;
  std::vector<std::optional<Slot>> slots_;
  std::vector<Group> groups_;  // of those without slots the place is free

  // Buffers, overwritten by every step.
  std::vector<std::size_t> order_;  // places of the rows
  std::vector<SlotToken> drawn_;    // [rows]
  std::vector<Own> own_;            // [workers]
};

}  // namespace foredraft::inline v0
