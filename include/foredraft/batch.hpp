#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/control/pass_share.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/decoder.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// A call of a decoder that is written turn by turn, whatever its drafter and rule.
/// @tparam C   caches of the target
/// @tparam DC  caches of the draft model whose passes texts share
template <typename C, typename DC>
class BatchedText {
 public:
  virtual ~BatchedText() = default;

  using Clock = std::chrono::steady_clock;

  /// The prompt is not read yet.
  virtual bool reading() const = 0;
  /// Take a turn, or end. @param step  when the step began
  virtual void begin(Drafting drafting, Clock::time_point step) = 0;
  virtual std::optional<Request<DC>> draft_request() = 0;
  virtual void advance(double seconds) = 0;
  virtual Request<C> request() = 0;
  /// @param seconds  of the pass that are this text's
  virtual void finish(double seconds) = 0;
  virtual void drop() noexcept = 0;
  virtual void fail(std::exception_ptr error) = 0;

  virtual const void* sequence() const noexcept = 0;
  virtual bool over() const noexcept = 0;
  virtual bool has_turn() const noexcept = 0;
  virtual bool reads() const noexcept = 0;  ///< its turn is a block of the prompt
};

template <typename S, typename DC>
class BatchedTextOf final : public BatchedText<typename S::Cache, DC> {
  using Clock = std::chrono::steady_clock;
  static constexpr bool kSharesDrafts = std::is_same_v<DraftCacheOf<typename S::Drafter>, DC>;

 public:
  BatchedTextOf(S& sequence, std::shared_ptr<Call> call, std::function<void(const Emitted&)> emit)
      : sequence_(sequence), call_(std::move(call)), emit_(std::move(emit)) {}

  std::future<Result> result() { return promise_.get_future(); }

  bool reading() const override { return sequence_.reading(); }

  // In the order of prefill() and generate().
  void begin(Drafting drafting, Clock::time_point step) override {
    drop();
    step_ = step;
    if (sequence_.reading()) {
      if (call_->cancelled()) return end(FinishReason::kCancelled);
      reader_.emplace(sequence_, call_);
      return;
    }
    const auto record = [this](const Emitted& token) {
      if (emit_) emit_(token);  // first: what throws must not take a token away from it
      result_.add(token, call_->options().logprobs >= 0);
    };
    sequence_.deliver(record);
    auto reason = sequence_.take_end(*call_);
    if (!reason && call_->cancelled()) reason = FinishReason::kCancelled;
    if (reason) {
      call_->stats.seconds.total += seconds_of_step();
      return end(*reason);
    }
    writer_.emplace(sequence_, call_, kSharesDrafts ? drafting : Drafting::kAtOnce);
  }

  std::optional<Request<DC>> draft_request() override {
    if constexpr (kSharesDrafts) {
      if (writer_) return writer_->draft_request();
    }
    return std::nullopt;
  }
  void advance(double seconds) override {
    if constexpr (kSharesDrafts) writer_->advance(seconds);
  }
  Request<typename S::Cache> request() override {
    return reader_ ? reader_->request() : writer_->request();
  }
  void finish(double seconds) override {
    Seconds& sum = call_->stats.seconds;
    if (reader_) {
      reader_->finish();
      sum.prefill += seconds_of_step();
    } else if (call_->cancelled()) {
      sum.verify += seconds;
      sum.total += seconds_of_step();
      return end(FinishReason::kCancelled);
    } else {
      writer_->finish(seconds);
      sum.total += seconds_of_step();
    }
    drop();
  }
  void drop() noexcept override {
    reader_.reset();
    writer_.reset();
  }
  void fail(std::exception_ptr error) override {
    drop();
    over_ = true;
    promise_.set_exception(std::move(error));
  }

  const void* sequence() const noexcept override { return &sequence_; }
  bool over() const noexcept override { return over_; }
  bool has_turn() const noexcept override { return reader_ || writer_; }
  bool reads() const noexcept override { return reader_.has_value(); }

 private:
  double seconds_of_step() const {
    return std::chrono::duration<double>(Clock::now() - step_).count();
  }

  void end(FinishReason reason) {
    drop();
    result_.finish_reason = reason;
    result_.stats = call_->stats;
    result_.speculation = sequence_.drafter().summary();
    over_ = true;
    promise_.set_value(std::move(result_));
  }

  S& sequence_;
  std::shared_ptr<Call> call_;
  std::function<void(const Emitted&)> emit_;
  std::optional<PromptTurn<S>> reader_;
  std::optional<Turn<S>> writer_;
  Result result_;
  std::promise<Result> promise_;
  Clock::time_point step_;
  bool over_ = false;
};

}  // namespace detail

/// Texts of one target that are written together: a step is one pass for the rows of all of them,
/// drafts and blocks of prompts included. Where a pass of many rows costs little more than one of a
/// single row, many texts take little more time than one.
///
///   Batch batch{target};
///   auto one = batch.generate(decoder_of_one, prompt_of_one, {.max_tokens = 64});
///   auto other = batch.generate(decoder_of_other, prompt_of_other);
///   batch.run();
///   use(one.get(), other.get());
///
/// Each text is the one that its decoder writes alone, if the target is row-exact: whoever else is
/// there, and whenever they came. As alone, a rule that tests with q gives the text of a seed only at
/// a fixed depth.
///
/// Decoders keep their caches, snapshots and drafters; those of a batch may have different drafters
/// and rules. They, the target and the draft model are referred to: they stay where they are, outlive
/// the batch, and a decoder is called by nobody else until its text is over. Nobody but step() writes:
/// to wait for a future before is to wait for ever. What is called in a step (emit, observer,
/// cancelled) may add texts, and calls nothing else of the batch. One thread at a time.
///
/// @tparam C   caches of the target
/// @tparam DC  caches of the draft model, for those of the drafters that leave its passes to others
template <typename T, Cache C, Cache DC = C>
  requires Target<T, C>
class Batch {
  using Text = detail::BatchedText<C, DC>;
  using Clock = std::chrono::steady_clock;

 public:
  /// Sees each token as soon as it is final.
  using Emit = std::function<void(const Emitted&)>;

  explicit Batch(T& target) : target_(target) {}
  /// Texts share the passes of this draft model, too, where their drafters leave them to others
  /// (SteppedDrafter). Drafters with caches of type DC have to run this model and no other.
  template <typename M>
    requires Target<M, DC>
  Batch(T& target, M& draft)
      : target_(target),
        draft_pass_([&draft](std::span<Request<DC>> requests) { draft.forward(requests); }) {}

  /// As Decoder::generate, and the text is written by the steps that follow.
  /// @return holds the result, or what the text failed with, when it is over. Where the batch ends
  ///   before, it is a broken promise
  /// @errors at once as Decoder::generate for what can be refused; kInvalidOption where the batch
  ///   writes a text of this decoder
  template <typename D, typename A>
  std::future<Result> generate(Decoder<T, C, D, A>& decoder, std::span<const TokenId> prompt,
                               const Options& options = {}, Emit emit = {}) {
    check_free(decoder.sequence());
    return add(decoder.sequence(), decoder.begin(prompt, options), std::move(emit));
  }
  /// As Decoder::resume. @errors likewise
  template <typename D, typename A>
  std::future<Result> resume(Decoder<T, C, D, A>& decoder, const Options& options = {},
                             Emit emit = {}) {
    check_free(decoder.sequence());
    return add(decoder.sequence(), decoder.go_on(options), std::move(emit));
  }

  /// Texts that are not over.
  std::size_t size() const noexcept { return texts_.size(); }

  /// A turn of each text. What fails in a text (its emit, drafter, rule) ends this text alone. Where
  /// the target's pass throws, no text has changed, and the next step takes the turns again.
  /// @return whether texts are left
  /// @errors what the target's pass throws
  bool step() {
    const auto leave = [this] {
      std::erase_if(texts_, [](const auto& text) { return text->over(); });
    };
    try {
      take_turns();
    } catch (...) {
      for (const auto& text : texts_) text->drop();
      leave();
      throw;
    }
    leave();
    return !texts_.empty();
  }

  /// To the end of all texts. @errors as step
  void run() {
    while (step()) {
    }
  }

 private:
  /// Rows of prompts in a pass, unless a single block has more: who writes waits for what these take.
  static constexpr int kMostPromptRows = 512;

  template <typename S>
  void check_free(const S& sequence) const {
    const auto is = [&](const auto& text) {
      return text->sequence() == &sequence && !text->over();
    };
    if (std::none_of(texts_.begin(), texts_.end(), is)) return;
    throw Error(ErrorCode::kInvalidOption, "a decoder whose text the batch is writing",
                "a decoder for each text", "");
  }

  template <typename S>
  std::future<Result> add(S& sequence, std::shared_ptr<Call> call, Emit emit) {
    auto text =
        std::make_unique<detail::BatchedTextOf<S, DC>>(sequence, std::move(call), std::move(emit));
    std::future<Result> result = text->result();
    texts_.push_back(std::move(text));
    return result;
  }

  /// f(text) of each. What it throws is the end of this text alone; who is over leaves the turns.
  template <typename F>
  static void each(std::vector<Text*>& turns, F f) {
    for (Text* text : turns) {
      try {
        f(*text);
      } catch (...) {
        text->fail(std::current_exception());
      }
    }
    std::erase_if(turns, [](const Text* text) { return text->over(); });
  }

  void take_turns() {
    std::vector<Text*> turns = begin();
    draft(turns);
    std::vector<Request<C>> requests;
    each(turns, [&](Text& text) { requests.push_back(text.request()); });
    if (requests.empty()) return;
    int rows = 0, prompt_rows = 0, writers = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (turns[i]->reads()) {
        prompt_rows += requests[i].count;
      } else {
        rows += requests[i].count;
        ++writers;
      }
    }
    double seconds = 0;
    {
      const Stopwatch watch(seconds);
      target_.forward(std::span(requests));
    }
    // Those who write pay what they would without the prompts: these come and go, and rows by the
    // hundred cost more than a few do. Where all passes read prompts, these have to say what that is.
    passes_with_prompts_.learn(rows + prompt_rows, seconds);
    if (prompt_rows == 0) passes_.learn(rows, seconds);
    const PassShare& known = passes_.expected(rows) ? passes_ : passes_with_prompts_;
    if (prompt_rows > 0) seconds = std::min(seconds, known.expected(rows).value_or(seconds));
    auto request = requests.begin();
    each(turns, [&](Text& text) {
      const int count = request++->count;
      text.finish(text.reads() ? 0 : known.of(count, rows, writers, seconds));
    });
  }

  std::vector<Text*> begin() {
    step_ = Clock::now();
    std::vector<Text*> turns;
    for (const auto& text : texts_) turns.push_back(text.get());
    int prompt_rows = 0;
    each(turns, [&](Text& text) {
      if (text.reading() && prompt_rows >= kMostPromptRows) return;
      text.begin(draft_pass_ ? Drafting::kInSteps : Drafting::kAtOnce, step_);
      if (!text.reads()) return;
      const int rows = text.request().count;
      const bool waits = prompt_rows > 0 && prompt_rows + rows > kMostPromptRows;
      if (waits) text.drop();
      if (!waits) prompt_rows += rows;
    });
    std::erase_if(turns, [](const Text* text) { return !text->has_turn(); });
    return turns;
  }

  /// A pass of the draft model for each level of the drafts that wait for it.
  void draft(std::vector<Text*>& turns) {
    for (;;) {
      std::vector<Text*> drafting;
      std::vector<Request<DC>> requests;
      each(turns, [&](Text& text) {
        const auto request = text.draft_request();
        if (!request) return;
        requests.push_back(*request);
        drafting.push_back(&text);
      });
      if (requests.empty()) return;
      int rows = 0;
      for (const auto& request : requests) rows += request.count;
      double seconds = 0;
      try {
        const Stopwatch watch(seconds);
        draft_pass_(requests);
      } catch (...) {
        // Drafters do not see it. At once they meet it themselves, and a chain drafts without the
        // model.
        each(drafting, [this](Text& text) { text.begin(Drafting::kAtOnce, step_); });
        std::erase_if(turns, [](const Text* text) { return text->over(); });
        return;
      }
      draft_passes_.learn(rows, seconds);
      const int texts = static_cast<int>(drafting.size());
      auto request = requests.begin();
      each(drafting, [&](Text& text) {  // who fails leaves `turns` above
        text.advance(draft_passes_.of(request++->count, rows, texts, seconds));
      });
    }
  }

  T& target_;
  std::function<void(std::span<Request<DC>>)> draft_pass_;
  std::vector<std::unique_ptr<Text>> texts_;
  PassShare passes_;  // without prompts
  PassShare passes_with_prompts_;
  PassShare draft_passes_;
  Clock::time_point step_;
};

/// Of a model, with the caches that it makes.
template <typename T>
Batch(T& target) -> Batch<T, decltype(target.make_cache())>;
template <typename T, typename M>
Batch(T& target, M& draft) -> Batch<T, decltype(target.make_cache()), decltype(draft.make_cache())>;

}  // namespace foredraft::inline v0
