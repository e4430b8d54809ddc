#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/drafter/no_draft.hpp>
#include <foredraft/testing/toy_target.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"

namespace fuzz {

/// A decoder, called in any order and disturbed anywhere, beside the text that it has to make:
/// whatever happens, its tokens are the beginning of what a fresh decoder makes of the same prompt.
template <typename Drafter>
class DecoderTrial {
 public:
  DecoderTrial(Choices& choices, Drafter drafter)
      : choices_(choices),
        target_(kVocab, static_cast<int>(choices.below(3))),
        decoder_(target_, foredraft::testing::TokenCache(kContext), std::move(drafter),
                 foredraft::SampleAndMatch{}) {
    usual_.sampling.temperature = choices.flag() ? 0.9f : 0.0f;
    usual_.seed = choices.below(4);
    target_.end_token = choices.flag() ? 3 : -1;
  }

  /// @return whether a token was made
  bool run() {
    for (int step = 0; step < 60 && !choices_.empty(); ++step) {
      switch (choices_.below(8)) {
        case 0:
        case 1: generate(); break;
        case 2:
        case 3: resume(); break;
        case 4: prefill(); break;
        case 5:
          saved_[choices_.below(saved_.size())] = {decoder_.snapshot(), prompt_, delivered_};
          break;
        case 6: restore(); break;
        case 7: resume(); break;
      }
      check();
    }
    return made_ > 0;
  }

 private:
  using TokenId = foredraft::TokenId;
  using Tokens = std::vector<TokenId>;
  using Target = foredraft::testing::HashTarget;
  using Decoder = foredraft::Decoder<Target, foredraft::testing::TokenCache, Drafter,
                                     foredraft::SampleAndMatch>;

  static constexpr int kVocab = 6;  // small: drafts are often right
  static constexpr int kContext = 48;

  struct Saved {
    std::optional<typename Decoder::Snapshot> snapshot;
    Tokens prompt;
    std::size_t delivered = 0;
  };

  /// A new text, or the one so far and more.
  Tokens any_prompt() {
    Tokens prompt;
    if (choices_.flag()) prompt.assign(decoder_.tokens().begin(), decoder_.tokens().end());
    if (choices_.flag()) prompt.resize(choices_.below(prompt.size() + 1));
    for (std::size_t n = choices_.below(7); n > 0; --n) {
      prompt.push_back(static_cast<TokenId>(choices_.below(kVocab)));
    }
    if (choices_.once_in(64)) prompt.push_back(choices_.take<TokenId>());
    return prompt;
  }

  foredraft::Options any_options() {
    foredraft::Options options = usual_;
    options.max_tokens = static_cast<int>(choices_.below(20)) - 1;
    options.n_draft = static_cast<int>(choices_.below(9));
    options.prefill_block = 1 + static_cast<int>(choices_.below(5));
    options.ignore_end = choices_.flag();
    if (choices_.once_in(16)) options.logprobs = static_cast<int>(choices_.below(kVocab + 2));
    const int cancel_at = choices_.once_in(3) ? static_cast<int>(choices_.below(16)) : -1;
    options.cancelled = [cancel_at, polls = 0]() mutable { return polls++ == cancel_at; };
    const int fail_at = choices_.once_in(6) ? static_cast<int>(choices_.below(12)) : -1;
    target_.before_forward = [fail_at, passes = 0]() mutable {
      if (passes++ == fail_at) throw Disturbed();
    };
    emit_fails_at_ = choices_.once_in(6) ? static_cast<int>(choices_.below(12)) : -1;
    return options;
  }

  struct Disturbed : std::runtime_error {
    Disturbed() : std::runtime_error("disturbed") {}
  };

  void generate() {
    const Tokens prompt = any_prompt();
    const foredraft::Options options = any_options();
    call(&prompt, [&](auto& emit) { return decoder_.generate(prompt, options, emit); });
  }
  void resume() {
    const foredraft::Options options = any_options();
    call(nullptr, [&](auto& emit) { return decoder_.resume(options, emit); });
  }
  void prefill() {
    const Tokens prompt = any_prompt();
    const foredraft::Options options = any_options();
    call(&prompt, [&](auto&) { return decoder_.prefill(prompt, options); });
  }

  /// @param prompt  what the text then begins with; null: it goes on
  template <typename F>
  void call(const Tokens* prompt, F action) {
    const std::size_t before = prompt == nullptr ? delivered_ : 0;
    Tokens emitted;
    auto emit = [&, calls = 0](const foredraft::Emitted& token) mutable {
      emitted.push_back(token.token);
      if (calls++ == emit_fails_at_) throw Disturbed();
    };
    bool refused = false;
    bool whole = false;
    try {
      const foredraft::Result result = action(emit);
      whole = result.finish_reason != foredraft::FinishReason::kCancelled;
      demand(result.tokens == emitted, "the result is not what was emitted");
    } catch (const Disturbed&) {
    } catch (const foredraft::Error&) {
      refused = true;
    }
    target_.before_forward = nullptr;
    if (refused) {
      demand(emitted.empty(), "a refused call emits");
      return;
    }
    if (prompt != nullptr) prompt_ = *prompt;
    delivered_ = before + emitted.size();
    made_ += emitted.size();
    const auto text = decoder_.tokens();
    demand(text.size() >= prompt_.size() + delivered_, "fewer tokens than were emitted");
    demand(std::equal(emitted.begin(), emitted.end(),
                      text.begin() + static_cast<std::ptrdiff_t>(prompt_.size() + before)),
           "emitted tokens are not those of the text");
    demand(!whole || text.size() == prompt_.size() + delivered_, "tokens are left behind");
  }

  void restore() {
    const Saved& saved = saved_[choices_.below(saved_.size())];
    if (!saved.snapshot) return;
    decoder_.restore(*saved.snapshot);
    prompt_ = saved.prompt;
    delivered_ = saved.delivered;
  }

  void check() {
    const auto tokens = decoder_.tokens();
    if (tokens.empty()) return;
    const Tokens& truth = truth_of(prompt_);
    demand(tokens.size() <= truth.size(), "a text beyond the context");
    demand(std::equal(tokens.begin(), tokens.end(), truth.begin()),
           "another text than undisturbed");
  }

  /// Prompt and text to the end of the context, plainly.
  const Tokens& truth_of(const Tokens& prompt) {
    Tokens& truth = truths_[prompt];
    if (!truth.empty()) return truth;
    foredraft::Options options = usual_;
    options.max_tokens = -1;
    options.ignore_end = true;
    foredraft::Decoder fresh{target_, foredraft::testing::TokenCache(kContext),
                             foredraft::NoDraft{}, foredraft::SampleAndMatch{}};
    fresh.generate(prompt, options);
    truth.assign(fresh.tokens().begin(), fresh.tokens().end());
    return truth;
  }

  Choices& choices_;
  Target target_;
  Decoder decoder_;
  foredraft::Options usual_;
  Tokens prompt_;
  std::size_t delivered_ = 0;  // tokens behind the prompt that were emitted
  std::size_t made_ = 0;
  int emit_fails_at_ = -1;
  std::array<Saved, 3> saved_;
  std::map<Tokens, Tokens> truths_;
};

}  // namespace fuzz
