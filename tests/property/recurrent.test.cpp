// Models with recurrent layers, through random schedules of staging, passes, commits, rejections,
// snapshots and restores: every row is, to the bit, that of its text forwarded token by token, and
// what must not allocate does not.

#include <foredraft/models.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/files.hpp"
#include "support/forward.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;
using Text = std::vector<fd::TokenId>;

constexpr int kMaxStaged = 12;
constexpr int kLongest = 48;

fd::Gguf model_file(const std::string& family) {
  return fd::Gguf::open(test_file("golden/recurrent/" + family + ".gguf"));
}

/// The logits behind a text whose tokens were forwarded and committed one by one.
class OneByOne {
 public:
  explicit OneByOne(Model& model) : model_(model) {}

  const std::vector<float>& behind(const Text& text) {
    const auto [place, fresh] = rows_.try_emplace(text);
    if (!fresh) return place->second;
    fd::HybridCache<float, fd::Slots> cache{model_.shape(), kLongest + kMaxStaged, 1};
    for (const fd::TokenId token : text) {
      cache.stage(std::vector<fd::Node>{{token, fd::kCommitted}});
      place->second = forward_rows(model_, cache, 0, 1)[0];
      cache.commit(fd::first_nodes(1));
    }
    return place->second;
  }

 private:
  Model& model_;
  std::map<Text, std::vector<float>> rows_;
};

/// A cache, and beside it the text that it stands for.
template <typename C>
class Schedule {
 public:
  Schedule(Model& model, OneByOne& truth, std::uint32_t seed)
      : model_(model),
        truth_(truth),
        random_(seed),
        cache_(model.shape(), kLongest + kMaxStaged, kMaxStaged) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

  int wrong = 0;
  int rows = 0;
  int committed = 0;
  int kept = 0;  // nodes that outlived a commit
  int restored = 0;
  std::int64_t allocated = 0;

 private:
  struct Saved {
    Text text;
    typename C::Snapshot snapshot;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void step() {
    switch (below(8)) {
      case 0:
        quietly([&] { cache_.discard(); });
        nodes_.clear();
        break;
      case 1: saved_.push_back({text_, cache_.snapshot()}); break;
      case 2:
        if (!saved_.empty()) restore();
        break;
      case 3:
        if (below(4) == 0) go_back();
        break;
      default: round();
    }
  }

  /// Stage a few nodes, anywhere below the others, and forward them in one or more passes; commit a
  /// path, mostly.
  void round() {
    const int before = static_cast<int>(nodes_.size());
    const int n = 1 + below(kMaxStaged - before > 0 ? kMaxStaged - before : 1);
    if (before + n > kMaxStaged) return;
    const bool chain = below(2) == 0;
    std::vector<fd::Node> fresh;
    for (int i = before; i < before + n; ++i) {
      fresh.push_back({below(3), chain ? i - 1 : below(i + 1) - 1});
      nodes_.push_back(fresh.back());
    }
    cache_.stage(fresh);
    for (int first = before; first < before + n;) {
      const int count = 1 + below(before + n - first);
      const auto found = forward_rows(model_, cache_, first, count);
      for (int i = 0; i < count; ++i) {
        wrong += found[fd::idx(i)] != truth_.behind(text_of(first + i));
        ++rows;
      }
      first += count;
    }
    if (below(4) > 0) commit(below(before + n));
  }

  void commit(fd::NodeIndex end) {
    std::vector<fd::NodeIndex> path;
    for (fd::NodeIndex node = end; node >= 0; node = nodes_[fd::idx(node)].parent)
      path.insert(path.begin(), node);
    if (text_.size() + path.size() > kLongest) return;
    text_ = text_of(end);
    committed += static_cast<int>(path.size());
    std::vector<int> number(nodes_.size(), -2);
    std::vector<fd::Node> left;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const int parent = nodes_[i].parent;
      const int above = parent == end ? -1 : parent < 0 ? -2 : number[fd::idx(parent)];
      if (above == -2) continue;
      number[i] = static_cast<int>(left.size());
      left.push_back({nodes_[i].token, above});
    }
    nodes_ = std::move(left);
    kept += static_cast<int>(nodes_.size());
    quietly([&] { cache_.commit(path); });
    REQUIRE(cache_.size() == static_cast<int>(text_.size()));
    REQUIRE(cache_.staged() == static_cast<int>(nodes_.size()));
  }

  void restore() {
    const Saved& saved = saved_[fd::idx(below(static_cast<int>(saved_.size())))];
    cache_.restore(saved.snapshot);
    text_ = saved.text;
    nodes_.clear();
    ++restored;
  }

  void go_back() {
    const int n = below(static_cast<int>(text_.size()) + 1);
    quietly([&] { cache_.truncate(n); });
    REQUIRE((cache_.size() == 0 || cache_.size() == static_cast<int>(text_.size())));
    text_.resize(fd::idx(cache_.size()));
    nodes_.clear();
  }

  Text text_of(fd::NodeIndex node) const {
    Text text;
    for (; node >= 0; node = nodes_[fd::idx(node)].parent)
      text.insert(text.begin(), nodes_[fd::idx(node)].token);
    text.insert(text.begin(), text_.begin(), text_.end());
    return text;
  }

  template <typename F>
  void quietly(F&& f) {
    const std::int64_t before = memory::allocations;
    f();
    allocated += memory::allocations - before;
  }

  Model& model_;
  OneByOne& truth_;
  std::mt19937 random_;
  C cache_;
  Text text_;                    // committed
  std::vector<fd::Node> nodes_;  // staged
  std::vector<Saved> saved_;
};

template <typename C>
void check(Model& model, OneByOne& truth) {
  int rows = 0;
  int committed = 0;
  int kept = 0;
  int restored = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Schedule<C> schedule(model, truth, seed);
    schedule.run(60);
    CHECK(schedule.wrong == 0);
    CHECK(schedule.allocated == 0);
    rows += schedule.rows;
    committed += schedule.committed;
    kept += schedule.kept;
    restored += schedule.restored;
  }
  CHECK(rows > 1000);
  CHECK(committed > 300);
  CHECK(kept > 50);
  CHECK(restored > 20);
}

}  // namespace

TEST_CASE("states are those of the text one by one, whatever was staged, rejected and restored") {
  for (const char* family : {"lfm2", "mamba2", "qwen35", "qwen3next"}) {
    CAPTURE(family);
    fd::Cpu cpu{{.threads = 2}};
    Model model = fd::load(cpu, model_file(family));
    OneByOne truth(model);
    check<fd::HybridCache<float, fd::Slots>>(model, truth);
    check<fd::HybridCache<float, fd::Replay>>(model, truth);
  }
}

TEST_CASE("sequences that share a pass do not see each other's states") {
  for (const char* family : {"lfm2", "mamba2", "qwen35", "qwen3next"}) {
    CAPTURE(family);
    fd::Cpu cpu{{.threads = 2}};
    Model model = fd::load(cpu, model_file(family));
    OneByOne truth(model);
    using Cache = fd::HybridCache<float>;
    Cache one{model.shape(), 64, 8};
    Cache other{model.shape(), 64, 8};
    Text of_one;
    Text of_other;
    for (int round = 0; round < 12; ++round) {
      const Text a{round % 3, (round + 1) % 3, round % 2};
      const Text b{(round + 2) % 3, round % 3};
      one.stage(chain_nodes(a));
      other.stage(chain_nodes(b));
      fd::Scores scores[2];
      fd::Request<Cache> requests[] = {{&one, 0, 3, {fd::RowNeed::kLogits, {}}, &scores[0]},
                                       {&other, 0, 2, {fd::RowNeed::kLogits, {}}, &scores[1]}};
      model.forward(std::span<fd::Request<Cache>>(requests));
      const int accepted = 1 + round % 3;
      of_one.insert(of_one.end(), a.begin(), a.begin() + accepted);
      of_other.insert(of_other.end(), b.begin(), b.end());
      const auto row = [](const fd::Scores& of, int i) {
        const auto logits = of.logits(i);
        return std::vector<float>(logits.begin(), logits.end());
      };
      CHECK(row(scores[0], accepted - 1) == truth.behind(of_one));
      CHECK(row(scores[1], 1) == truth.behind(of_other));
      one.commit(fd::first_nodes(accepted));
      one.discard();
      other.commit(fd::first_nodes(2));
    }
  }
}
