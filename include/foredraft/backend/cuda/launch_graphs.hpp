#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <foredraft/backend/cuda/launch_list.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Graphs of kernels that were started together before: a device starts the whole of one for about the
/// price of one kernel. A list that resembles an earlier one takes its graph, and only kernels whose
/// arguments are new are told to it. So passes of a model over 1, 2, .. rows have a graph each, which
/// is made once, and behind one more token hardly anything of it changes.
///
/// @tparam Driver  what starts kernels:
///     Graph                        a graph on the device, destroyed with its owner
///     start(list, i)               launch i alone
///     graph_of(list) -> Graph      of all of them, one after the other
///     update(graph, list, i)       launch i has other arguments, or another grid, the next time
///     start(graph)                 all of it
///   Each may throw. Where a graph cannot be made or updated, as on a device whose memory is full, its
///   launches are started one by one; what that throws is passed on.
template <typename Driver>
class LaunchGraphs {
 public:
  /// Lists shorter than this are started one by one.
  static constexpr int kLeast = 6;
  /// Graphs that are kept; the one that was not used for longest is given up.
  static constexpr int kMost = 64;

  explicit LaunchGraphs(Driver driver) : driver_(std::move(driver)) {}

  /// Start all of `list`, and empty it, whatever happens: also where it throws.
  void run(LaunchList& list) {
    struct Cleared {
      LaunchList& list;
      ~Cleared() { list.clear(); }
    } cleared{list};
    Kept* const kept = list.size() < kLeast ? nullptr : updated(list);
    if (kept == nullptr) {
      for (int i = 0; i < list.size(); ++i) driver_.start(list, i);
      return;
    }
    kept->last_used = ++now_;
    driver_.start(*kept->graph);
  }

  int kept() const noexcept { return static_cast<int>(kept_.size()); }

 private:
  struct Kept {
    LaunchList list;
    std::optional<typename Driver::Graph> graph;
    std::uint64_t last_used = 0;
  };

  /// A graph that is `list` now, which it takes; null, and `list` as it was, where there can be none.
  Kept* updated(LaunchList& list) {
    auto found = std::find_if(kept_.begin(), kept_.end(),
                              [&](const Kept& kept) { return kept.list.resembles(list); });
    if (found == kept_.end()) return made(list);
    try {
      for (int i = 0; i < list.size(); ++i) {
        if (!list.same(i, found->list)) driver_.update(*found->graph, list, i);
      }
    } catch (...) {  // some of it is new and some old
      kept_.erase(found);
      return nullptr;
    }
    std::swap(found->list, list);
    return &*found;
  }

  Kept* made(LaunchList& list) {
    if (kept_.size() == idx(kMost)) {
      kept_.erase(std::min_element(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) {
        return a.last_used < b.last_used;
      }));
    }
    Kept fresh;
    try {
      kept_.reserve(idx(kMost));
      fresh.graph.emplace(driver_.graph_of(list));
    } catch (...) {
      return nullptr;
    }
    std::swap(fresh.list, list);
    kept_.push_back(std::move(fresh));
    return &kept_.back();
  }

  Driver driver_;
  std::vector<Kept> kept_;
  std::uint64_t now_ = 0;
};

}  // namespace foredraft::inline v0::cuda
