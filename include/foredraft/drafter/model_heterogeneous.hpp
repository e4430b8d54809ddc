#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_checks.hpp>
#include <foredraft/core/text_codec.hpp>
#include <foredraft/drafter/draft_choice.hpp>
#include <foredraft/drafter/draft_model.hpp>
#include <foredraft/drafter/draft_text.hpp>
#include <foredraft/drafter/sibling_picker.hpp>
#include <foredraft/drafter/vocabulary_map.hpp>

namespace foredraft::inline v0 {

/// How a draft of one vocabulary becomes one of another.
enum class Translation : std::uint8_t {
  /// Realignment where the draft model's best tokens are wanted, else intersection.
  kAuto,
  /// Only tokens that both vocabularies have are drafted, out of the draft model's law without the
  /// others. That is a law q of the target's tokens, so drafts may be drawn from it.
  kIntersection,
  /// The draft model writes what it likes, and the target's tokenizer makes tokens of it: point mass.
  kRealignment,
};

struct HeterogeneousSettings {
  Translation translation = Translation::kAuto;
  DraftSampling sampling = DraftSampling::kAuto;
  /// The law that drafts are drawn from; absent: as the target is sampled.
  std::optional<SamplingOptions> law = {};
  /// The choice between drawn and argmax drafts, where kAuto leaves it open.
  DraftChoice choice = DraftChoice();
  /// As in ModelTreeSettings, in tokens of the draft model.
  int tail = std::numeric_limits<int>::max();
};

/// A smaller model of another vocabulary drafts a chain. It reads the target's text in tokens of its
/// own.
///
/// Where the two tokenizers cut a text differently, a draft ends in the middle of what the other one
/// calls a token; that costs accepted tokens, never the text or its law.
/// @cost depth forward passes of the draft model with one row each; translating a row O(n_vocab),
/// realigning a draft O(its bytes)
/// @source Timor et al. 2025, arXiv:2502.05202 (token-level intersection); transformers, "universal
/// assisted generation" (realignment, which it does by comparing token sequences)
/// @see SteppedDrafter for passes that several sequences share
template <typename T, Cache C = DraftCacheFor<T>>
  requires Target<T, C>
class HeterogeneousDrafter : public DrafterBase {
 public:
  struct Snapshot {
    typename DraftModel<T, C>::Snapshot model;
    DraftText::State text;
    DraftChoice choice;
  };

  using DraftCache = C;

  static constexpr Proposal proposal = Proposal::kLaw;
  static constexpr Shape shape = Shape::kChain;

  /// @param n_ctx positions of its cache; 0: as many as it was trained for
  HeterogeneousDrafter(T& model, TextCodec target, TextCodec draft,
                       HeterogeneousSettings settings = {}, int n_ctx = 0)
      : HeterogeneousDrafter(model, C(model.shape(), n_ctx), std::move(target), std::move(draft),
                             std::move(settings)) {}
  /// @errors kInvalidOption; kVocabularyMismatch where the vocabularies have no token in common
  HeterogeneousDrafter(T& model, C cache, TextCodec target, TextCodec draft,
                       HeterogeneousSettings settings)
      : model_(model, std::move(cache), settings.tail),
        text_(std::move(target), std::move(draft)),
        map_(text_.target(), text_.draft()),
        settings_(std::move(settings)),
        way_(settings_.sampling, settings_.choice) {
    if (settings_.law) check(*settings_.law);
    if (map_.size() > 0) return;
    throw Error(ErrorCode::kVocabularyMismatch, "a draft model without any token of the target",
                "at least the bytes in common", "draft without a model");
  }

  int max_depth() const noexcept { return std::min(model_.max_nodes(), DraftTree::kMaxNodes - 1); }

  /// Of its own tokens, as far as the text is known in them.
  std::optional<int> backlog(int n_tokens) const noexcept {
    const int known = text_.known(std::min(n_tokens, valid_));
    const int beyond = std::max(n_tokens - known - come_true_, 0);
    return std::min(model_.backlog(text_.within(known)) + beyond, settings_.tail);
  }

  std::string summary() const { return model_.summary(); }

  /// @errors kVocabularyMismatch where this is not the target whose codec was given
  void attach(const TargetInfo& target) const {
    const VocabularyInfo& vocabulary = target.vocabulary;
    const TextCodec& codec = text_.target();
    for (TokenId id = 0; vocabulary.piece && id < vocabulary.used; ++id) {
      if (id < codec.n_vocab && codec.piece(id) == vocabulary.piece(id)) continue;
      throw Error(ErrorCode::kVocabularyMismatch, "another piece for token " + std::to_string(id),
                  "the codec of this target", "");
    }
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    begin(context, limit, draft);
    while (request()) {
      model_.make_pass();
      advance(draft);
    }
  }

  /// The same in steps.
  void begin(const Context& context, Limit limit, DraftTree& draft) {
    follow(context.tokens);
    context_ = context;
    if (text_.tokens().empty()) return;
    const int room = model_.begin(text_.tokens(), limit.read, limit.read_at_once);
    depth_ = std::max(std::min({limit.depth, limit.nodes, max_depth(), room}), 0);
    stop_below_ = limit.stop_below;
    path_ = 1;
    ended_ = false;
    own_.reset(text_.tokens().back());
    if (depth_ > 0) begin_draft();
    next(draft);
  }
  std::optional<Request<C>> request() noexcept { return model_.request(); }
  void advance(DraftTree& draft, double = 0) {
    if (model_.advance()) ended_ = !(realigns_ ? write() : draft_in_common(draft));
    next(draft);
  }

  /// Rows of the draft stay staged: which of them are final is known once the text is, in its tokens.
  void commit(const Round& round) noexcept {
    way_.learn(round);
    if (!drafted_) return;
    drafted_ = false;
    const std::span<const Node> nodes = way_.nodes();
    come_true_ = 1;  // the anchor's row is one of them
    for (const TokenId token : round.tokens) {
      if (idx(come_true_) >= nodes.size() || nodes[idx(come_true_)].token != token) break;
      ++come_true_;
    }
  }

  void truncate(int n) noexcept {
    valid_ = std::min(valid_, n);
    forget_draft();
    way_.reset();
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const { return {model_.snapshot(), text_.state(), way_.choice()}; }
  void restore(const Snapshot& snapshot) {
    DraftText::State text = snapshot.text;
    model_.restore(snapshot.model);
    text_.restore(std::move(text));
    valid_ = kAll;
    forget_draft();
    way_.restore(snapshot.choice);
  }

  const C& cache() const noexcept { return model_.cache(); }

 private:
  static constexpr int kAll = std::numeric_limits<int>::max();

  bool realigns(DraftSampling how) const noexcept {
    return settings_.translation == Translation::kRealignment ||
           (settings_.translation == Translation::kAuto && how == DraftSampling::kArgmax);
  }

  void forget_draft() noexcept {
    drafted_ = false;
    come_true_ = 0;
  }

  /// Bring text and cache to what is final. The cache keeps all rows whose tokens still stand, the
  /// rows of a draft that has come true among them.
  void follow(std::span<const TokenId> final) {
    forget_draft();
    const int standing = text_.follow(final);
    valid_ = kAll;
    const std::span<const TokenId> tokens = text_.tokens();
    const int anchor = model_.reached();
    if (anchor < standing) {
      model_.keep(anchor, tokens[idx(anchor)], tokens.subspan(idx(anchor) + 1));
    } else {
      model_.truncate(std::min(standing, anchor));
    }
  }

  void begin_draft() {
    const SamplingOptions law = settings_.law.value_or(context_.sampling);
    const DraftSampling how = way_.begin(context_, law);
    realigns_ = realigns(how);
    if (!realigns_) {
      return picker_.begin(context_, law, how, Siblings::kIndependent, 0, stop_below_ > 0);
    }
    Context own = context_;
    own.tokens = text_.tokens();
    own.n_vocab = text_.draft().n_vocab;
    own.constraint = nullptr;  // it speaks of the target's tokens
    SamplingOptions best;      // penalties count the target's tokens
    best.temperature = 0;
    picker_.begin(own, best, DraftSampling::kArgmax, Siblings::kIndependent, model_.vocab_size(),
                  stop_below_ > 0);
  }

  /// Ask for the row of the next token, once the draft model has caught up; where no other is wanted,
  /// the draft is complete.
  void next(DraftTree& draft) {
    if (model_.request()) return;
    if (!ended_ && own_.drafted() < depth_ && path_ >= stop_below_) {
      return model_.expand(own_, realigns_ ? picker_.want(1) : Want{RowNeed::kLogits, {}});
    }
    if (depth_ == 0) return;
    if (realigns_) realign(draft);
    way_.drafted(draft);
    drafted_ = true;
  }

  /// Draft a token that both vocabularies have. @return whether another may follow
  bool draft_in_common(DraftTree& draft) {
    map_.translate(model_.scores().logits(model_.row(own_.size() - 1)),
                   std::min(context_.n_vocab, text_.target().n_vocab), translated_);
    const NodeIndex parent = draft.size() - 1;
    picker_.add(parent, 1, translated_, 0, draft);
    const NodeIndex node = draft.first_child(parent);
    if (node < 0) return false;
    own_.extend(map_.to_draft(draft.token(node)));
    if (stop_below_ > 0) path_ *= draft.confidence(node);
    return true;
  }

  /// Let the draft model write its best token. @return whether another may follow
  bool write() {
    const NodeIndex parent = own_.size() - 1;
    picker_.add(parent, 1, model_.scores(), model_.row(parent), own_);
    const TokenId token = own_.token(own_.size() - 1);
    if (text_.draft().is_text && !text_.draft().is_text(token) &&
        map_.to_target(token) == VocabularyMap::kNone) {
      own_.truncate(own_.size() - 1);  // its name is no text; behind it there is none
      return false;
    }
    if (stop_below_ > 0) path_ *= own_.confidence(own_.size() - 1);
    return true;
  }

  /// What the target's tokenizer makes of that. The last final tokens are encoded with it, since a
  /// tokenizer looks at what is before; where they come out otherwise, what was written stands alone.
  void realign(DraftTree& draft) {
    std::string written;
    for (NodeIndex node = 1; node < own_.size(); ++node) {
      written += text_.draft().piece(own_.token(node));
    }
    const std::size_t n = std::min(kTail, context_.tokens.size());
    const auto tail = context_.tokens.last(n);
    std::vector<TokenId> tokens = text_.target().encode(std::string(text_.tail(n)) + written);
    if (tokens.size() > n && std::equal(tail.begin(), tail.end(), tokens.begin())) {
      tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    } else {
      tokens = text_.target().encode(written);
    }
    std::size_t end = 0;
    double before = 1;
    for (const TokenId token : tokens) {
      if (draft.drafted() == depth_ || token < 0 || token >= context_.n_vocab) return;
      const NodeIndex node = draft.extend(token);
      end += text_.target().piece(token).size();
      const double path = path_to(end);
      if (path >= 0) draft.set_confidence(node, static_cast<float>(path / before));
      before = path;
    }
  }

  /// Probability of what was written up to a byte, by the draft model's own confidence; below 0
  /// where it is not known.
  double path_to(std::size_t byte) const {
    double path = 1;
    std::size_t begin = 0;
    for (NodeIndex node = 1; node < own_.size() && begin < byte; ++node) {
      if (own_.confidence(node) < 0) return -1;
      path *= own_.confidence(node);
      begin += text_.draft().piece(own_.token(node)).size();
    }
    return path;
  }

  static constexpr std::size_t kTail = 8;

  DraftModel<T, C> model_;
  DraftText text_;
  VocabularyMap map_;
  HeterogeneousSettings settings_;
  DraftWay way_;
  SiblingPicker picker_;
  DraftTree own_;         // the draft in the draft model's tokens
  Scores translated_;     // a row in the target's
  int valid_ = kAll;      // final tokens that were not cut off since
  bool drafted_ = false;  // in the round that is open
  int come_true_ = 0;     // of the rows that are staged, those of final tokens, about
  // Of the round that is open:
  Context context_;
  int depth_ = 0;          // tokens that are wanted of the draft, in either vocabulary
  float stop_below_ = 0;   // path probability
  float path_ = 1;         // of the draft so far
  bool ended_ = false;     // nothing can follow what is drafted
  bool realigns_ = false;  // else it drafts what both vocabularies have
};

}  // namespace foredraft::inline v0
