// A chain whose controller may be told what rounds cost, so that it decides the same in each run.
#pragma once

#include <cstdint>

#include <foredraft/drafter/chain.hpp>

#include "support/simulated_rounds.hpp"

namespace given {

namespace fd = foredraft;

enum class Costs : std::uint8_t {
  kMeasured,
  kNone,  // of rows, next to none of drafts: all that is expected to bring something is drafted
  kSenseless,  // the controller decides at random
};

/// Clocks, the same each time they are set back: no two readings of one make sense, the other takes so
/// many milliseconds a reading, where a pass takes a second. One that stood still would say that a
/// model's level was never measured, and no draft of it would be deeper than one.
inline std::uint64_t reading = 0;
inline double senseless() { return simulated::unit(++reading, 5); }
template <int kMilliseconds = 1>
double ticking() {
  return 0.001 * kMilliseconds * static_cast<double>(++reading);
}

template <fd::Shape S>
class Chain : public fd::Chain<S> {
 public:
  explicit Chain(Costs costs = Costs::kSenseless) : costs_(costs) {
    if (costs == Costs::kNone) this->use_clock(&ticking<>);
    if (costs == Costs::kSenseless) this->use_clock(&senseless);
  }
  void commit(const fd::Round& round) noexcept {
    for (const fd::TokenId token : round.tokens) {
      seen_ = simulated::mix(seen_, static_cast<std::uint64_t>(token));
    }
    fd::Round changed = round;
    if (costs_ == Costs::kNone) changed.cost = {0.0, 1.0};
    if (costs_ == Costs::kSenseless) {
      changed.cost = {simulated::unit(seen_, 1), simulated::unit(seen_, 2)};
    }
    fd::Chain<S>::commit(changed);
  }

 private:
  Costs costs_;
  std::uint64_t seen_ = 0;  // all that has become final, on which senseless costs depend
};
static_assert(fd::Drafter<Chain<fd::Shape::kTree>>);

}  // namespace given
