#pragma once

#include <array>
#include <cstdint>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// A run of consecutive things: begin .. end - 1.
struct Range {
  int begin = 0;
  int end = 0;

  int size() const noexcept { return end - begin; }
};

/// The part of n equal things that falls to a worker.
constexpr Range share(int n, int worker, int n_workers) noexcept {
  const auto cut = [&](int i) { return static_cast<int>(std::int64_t{n} * i / n_workers); };
  return {cut(worker), cut(worker + 1)};
}

/// How many of n units of one size, laid end to end from `start` on, have their middle before
/// `bound`. Workers that cut at common bounds so get every unit exactly once.
constexpr int units_before(std::int64_t bound, std::int64_t start, std::int64_t unit,
                           int n) noexcept {
  const std::int64_t twice =
      2 * (bound - start) - unit;  // unit u is before the bound where 2 u unit < twice
  if (twice <= 0) return 0;
  const std::int64_t count = (twice + 2 * unit - 1) / (2 * unit);
  return count < n ? static_cast<int>(count) : n;
}

/// Runs of units of different sizes, dealt out to workers in one order and so that every worker
/// gets about the same.
template <int kRuns>
class WeightedShare {
 public:
  /// Append n units. @param unit size of one, positive
  void add(int n, std::int64_t unit) noexcept {
    runs_[idx(n_runs_++)] = {total_, unit, n};
    total_ += n * unit;
  }

  /// The units of a run that fall to a worker.
  Range of(int run, int worker, int n_workers) const noexcept {
    const Run& r = runs_[idx(run)];
    return {units_before(total_ * worker / n_workers, r.start, r.unit, r.n),
            units_before(total_ * (worker + 1) / n_workers, r.start, r.unit, r.n)};
  }

  /// Whether no worker gets more than an equal part and a tenth of it.
  bool balanced(int n_workers) const noexcept {
    for (int worker = 0; worker < n_workers; ++worker) {
      std::int64_t sum = 0;
      for (int run = 0; run < n_runs_; ++run) {
        sum += of(run, worker, n_workers).size() * runs_[idx(run)].unit;
      }
      if (10 * sum * n_workers > 11 * total_) return false;
    }
    return true;
  }

 private:
  struct Run {
    std::int64_t start = 0;
    std::int64_t unit = 1;
    int n = 0;
  };
  std::array<Run, kRuns> runs_{};
  int n_runs_ = 0;
  std::int64_t total_ = 0;
};

// Queries of attention, dealt out by what they see. `Task` is an AttendTask.

/// Cost of one query of a row, in positions. What comes on top of those it sees is worth about 16.
template <typename Task>
std::int64_t query_cost(const Task& task, int row) noexcept {
  return task.visible(row) - task.first_visible(row) + 16;
}

/// Cost of all queries of a KV head.
template <typename Task>
std::int64_t head_cost(const Task& task, int n_rows) noexcept {
  std::int64_t sum = 0;
  for (int row = 0; row < n_rows; ++row) sum += query_cost(task, row);
  return sum * task.group;
}

/// How many queries of a KV head whose cost begins at `start` lie before a bound.
template <typename Task>
int queries_before(std::int64_t bound, std::int64_t start, const Task& task, int n_rows) noexcept {
  int n = 0;
  for (int row = 0; row < n_rows && start < bound; ++row) {
    const std::int64_t cost = query_cost(task, row);
    n += units_before(bound, start, cost, task.group);
    start += cost * task.group;
  }
  return n;
}

}  // namespace foredraft::inline v0::cpu
