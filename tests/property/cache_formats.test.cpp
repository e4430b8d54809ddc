// Keys and values each in a format of its own: in every pair what is staged together is what comes
// alone, and drafted text is the text, in caches with and without rings.

#include <foredraft/models.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/forward.hpp"
#include "support/oracle_drafter.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;
using Linear = fd::LinearCache<fd::cpu::AnyRows>;
using Ring = fd::RotatingCache<fd::cpu::AnyRows>;
using Tokens = std::vector<fd::TokenId>;

constexpr int kMostStaged = 12;

std::vector<fd::RowFormats> all_pairs() {
  std::vector<fd::RowFormats> pairs;
  for (int k = 0; k < fd::kRowFormats; ++k) {
    for (int v = 0; v < fd::kRowFormats; ++v) {
      pairs.push_back({static_cast<fd::RowFormat>(k), static_cast<fd::RowFormat>(v)});
    }
  }
  return pairs;
}

/// Layers with a window and layers without.
TinyModel tiny_gemma(int n_layers) {
  TinyModel tiny;
  tiny.family = "gemma3";
  tiny.n_layers = n_layers;
  tiny.window = 7;
  tiny.d_head = 64;  // what a quantized cache can hold
  tiny.n_heads = 2;
  tiny.n_kv_heads = 1;
  return tiny;
}

fd::CacheShape shape_of(const Model& model, fd::RowFormats formats) {
  fd::CacheShape shape = model.shape();
  shape.formats = formats;
  return shape;
}

/// Two caches under a random schedule, beside one that reads token by token and never rejects.
class Schedule {
 public:
  Schedule(Model& model, fd::RowFormats formats, unsigned seed)
      : model_(model),
        linear_(shape_of(model, formats), 400, kMostStaged),
        ring_(shape_of(model, formats), 400, kMostStaged),
        alone_(shape_of(model, formats), 400, kMostStaged),
        random_(seed) {}

  /// @return how many rows differed
  int run(int n_steps) {
    for (int step = 0; step < n_steps; ++step) {
      switch (below(20)) {
        case 0: save(); break;
        case 1: restore(); break;
        case 2: truncate(); break;
        default: round(below(2) == 0);
      }
    }
    return wrong_;
  }
  /// Tokens of the longest text.
  std::size_t longest() const noexcept { return longest_; }

 private:
  struct Saved {
    Linear::Snapshot linear;
    Ring::Snapshot ring;
    Tokens text;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  /// A chain or a tree is staged; some path of it is committed; sometimes another pass follows what
  /// is left.
  void round(bool chain) {
    std::vector<fd::Node> nodes;
    for (int i = 0, n = 1 + below(kMostStaged); i < n; ++i)
      nodes.push_back({below(250), chain ? i - 1 : below(i + 1) - 1});
    const auto n = static_cast<int>(nodes.size());
    std::vector<std::vector<float>> expected;
    for (int node = 0; node < n; ++node) expected.push_back(row_alone(path_to(nodes, node)));
    for_both([&](auto& cache) {
      cache.stage(nodes);
      // In two passes, so that the second one reads staged rows of the first.
      const int first = n / 2;
      auto rows = forward_rows(model_, cache, 0, first);
      for (auto& row : forward_rows(model_, cache, first, n - first))
        rows.push_back(std::move(row));
      for (int node = 0; node < n; ++node) wrong_ += rows[fd::idx(node)] != expected[fd::idx(node)];
    });
    // Of a chain nearly all is right, so that the text grows; of a tree anything.
    const int end = chain ? std::max(n - 1 - below(4), -1) : below(n + 1) - 1;
    std::vector<fd::NodeIndex> path;
    for (int node = end; node >= 0; node = nodes[fd::idx(node)].parent)
      path.insert(path.begin(), node);
    for_both([&](auto& cache) { cache.commit(path); });
    for (const fd::NodeIndex node : path) text_.push_back(nodes[fd::idx(node)].token);
    for_both([&](auto& cache) { cache.discard(); });
    longest_ = std::max(longest_, text_.size());
    read_alone();
  }

  void save() { saved_ = Saved{linear_.snapshot(), ring_.snapshot(), text_}; }
  void restore() {
    if (!saved_) return;
    linear_.restore(saved_->linear);
    ring_.restore(saved_->ring);
    text_ = saved_->text;
    alone_.truncate(0);
    read_alone();
  }
  /// A ring may have to forget everything; then both begin anew.
  void truncate() {
    ring_.truncate(ring_.size() - below(4));
    linear_.truncate(ring_.size());
    text_.resize(fd::idx(ring_.size()));
    alone_.truncate(0);
    read_alone();
  }

  static Tokens path_to(const std::vector<fd::Node>& nodes, fd::NodeIndex node) {
    Tokens path;
    for (; node >= 0; node = nodes[fd::idx(node)].parent)
      path.insert(path.begin(), nodes[fd::idx(node)].token);
    return path;
  }

  void read_alone() {
    while (alone_.size() < static_cast<int>(text_.size())) {
      alone_.stage(std::vector<fd::Node>{{text_[fd::idx(alone_.size())], fd::kCommitted}});
      forward_rows(model_, alone_, 0, 1);
      alone_.commit(fd::first_nodes(1));
    }
  }
  /// The row of the last token, which follows the text so far, each in a pass of one row.
  std::vector<float> row_alone(const Tokens& path) {
    std::vector<float> last;
    alone_.stage(chain_nodes(path));
    for (int i = 0; i < static_cast<int>(path.size()); ++i)
      last = forward_rows(model_, alone_, i, 1)[0];
    alone_.discard();
    return last;
  }

  template <typename F>
  void for_both(F&& f) {
    f(linear_);
    f(ring_);
  }

  Model& model_;
  Linear linear_;
  Ring ring_;
  Linear alone_;
  std::mt19937 random_;
  Tokens text_;
  std::optional<Saved> saved_;
  std::size_t longest_ = 0;
  int wrong_ = 0;
};

const Tokens kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
constexpr int kTokens = 80;

template <typename C, typename D>
fd::Result generate(Model& target, C cache, D drafter, int depth) {
  fd::Decoder decoder{target, std::move(cache), std::move(drafter), fd::Greedy{}};
  return decoder.generate(kPrompt, {.max_tokens = kTokens, .n_draft = depth, .ignore_end = true});
}

}  // namespace

TEST_CASE("a row is the row alone, whatever was staged, kept, dropped and restored before it") {
  const auto bytes = tiny_gemma(3).file();
  fd::Cpu cpu{{.threads = 2}};
  Model model = fd::load(cpu, fd::Gguf::parse(bytes));
  unsigned seed = 0;
  for (const fd::RowFormats formats : all_pairs()) {
    CAPTURE(fd::name_of(formats.k), fd::name_of(formats.v));
    Schedule schedule(model, formats, ++seed);
    CHECK(schedule.run(50) == 0);
    CHECK(schedule.longest() > 64);  // a ring for 7 + 12 rows has wrapped
  }
}

TEST_CASE("drafted text is the text, whatever formats target and draft model have") {
  const auto target_bytes = tiny_gemma(3).file();
  const auto draft_bytes = tiny_gemma(1).file();
  fd::Cpu cpu{{.threads = 2}};
  Model target = fd::load(cpu, fd::Gguf::parse(target_bytes));
  Model draft = fd::load(cpu, fd::Gguf::parse(draft_bytes));
  const auto pairs = all_pairs();
  Drafted by_model;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const fd::CacheShape shape = shape_of(target, pairs[i]);
    const fd::CacheShape drafts = shape_of(draft, pairs[(i * 5 + 3) % pairs.size()]);
    CAPTURE(fd::name_of(pairs[i].k), fd::name_of(pairs[i].v));
    const Tokens text = generate(target, Linear(shape, 200), fd::NoDraft{}, 0).tokens;
    REQUIRE(text.size() == kTokens);
    Tokens all = kPrompt;
    all.insert(all.end(), text.begin(), text.end());
    for (const int depth : {1, 4, 12}) {
      CAPTURE(depth);
      const auto chain = [&](auto cache) {
        return fd::ModelDrafter<Model, Ring>(draft, std::move(cache), {});
      };
      const auto first = generate(target, Linear(shape, 200), chain(Ring(drafts, 200)), depth);
      const auto second =
          generate(target, Ring(shape, 200, 32), chain(Ring(drafts, 200, 32)), depth);
      CHECK(first.tokens == text);
      CHECK(second.tokens == text);
      CHECK(first.stats.accepted == second.stats.accepted);  // rings change no bit of a draft
      by_model.add(first);
      const auto tree = OracleDrafter::sweeping(all, target.vocab_size(), 3);
      CHECK(generate(target, Linear(shape, 200), tree, depth).tokens == text);
      CHECK(generate(target, Ring(shape, 200, 32), tree, depth).tokens == text);
    }
  }
  CHECK(by_model.drafted > 0);
}
