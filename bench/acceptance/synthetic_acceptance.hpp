#pragma once

#include <cstddef>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace bench {

namespace fd = foredraft;

/// Accepts the draft at each depth with a fixed probability, whatever it is. The text is worthless;
/// the work is that of a round with so much acceptance. For measuring what a rate is worth, and
/// nothing else: it knows no p.
struct SyntheticAcceptance {
  static constexpr fd::Shape shape = fd::Shape::kChain;
  static constexpr bool uses_law() noexcept { return false; }
  static constexpr bool lossless = false;

  /// Of the i-th draft, given that those before it were accepted; the last rate holds for all
  /// behind it. At least one.
  std::vector<double> rates{0.7};

  fd::RowNeed needs(const fd::SamplingOptions&) const noexcept { return fd::RowNeed::kArgmax; }

  fd::Verdict verify(const fd::DraftTree& draft, const fd::RowSampler& rows, fd::Rng& rng) const {
    fd::Verdict verdict;
    verdict.start();
    for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
      const auto depth = fd::idx(node) - 1;
      const double rate = depth < rates.size() ? rates[depth] : rates.back();
      if (!rng.bernoulli({fd::Purpose::kAccept, rows.anchor_position(), node}, rate)) break;
      verdict.accept(node);
    }
    verdict.last = rows.argmax(verdict.end());
    return verdict;
  }
};

static_assert(fd::Acceptance<SyntheticAcceptance>);

}  // namespace bench
