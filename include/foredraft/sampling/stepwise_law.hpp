#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/sampling/history.hpp>
#include <foredraft/sampling/logit_adjustments.hpp>

namespace foredraft::inline v0 {

/// p, worked out transform by transform over all tokens that are left: in any order, and for the
/// transforms to which there is no short cut. Transforms decides which rows come here.
///
/// Each step sees the law that the step before left, and ties go to the lower id. What a step
/// does is a function of the row and its history; the coin of XTC is not tossed: p is the mixture of
/// what its two sides give, which is the law of a token drawn after a toss. docs/design/sampling.md
/// has the formulas.
class StepwiseLaw {
 public:
  /// Make room, as Transforms::reserve().
  void reserve(const SamplingOptions& options, std::size_t n_vocab, std::size_t n_tokens) {
    left_.reserve(n_vocab);
    if (options.uses(Sampler::kXtc)) without_.reserve(n_vocab);
    steps_.reserve(idx(kSamplers));
    order_.reserve(n_vocab);
    keep_.reserve(n_vocab);
    values_.reserve(n_vocab);
    mixed_.reserve(n_vocab);
    adjustments_.reserve(options, n_tokens);
  }

  /// @param options above temperature 0
  /// @param logits with what LogitAdjustments::allow() does to them; where a step is none of
  /// options.samplers, with the penalties too
  /// @param penalised they hold the penalties already, so no step does that
  /// @shape logits [n_vocab], at least one of them finite @units out.p sums to 1
  /// @cost O(n_vocab log n_vocab)
  void apply(const SamplingOptions& options, std::span<const float> logits, const History& history,
             bool penalised, Law& out) {
    out.clear();
    left_.start(logits);
    order_of(options, penalised);
    const Lookback text(history);
    run(options, steps_, text, history.most_surprise, left_, 1.0, out);
  }

 private:
  /// Tokens that are left, ascending, and their logits as the steps have left them. The greatest is
  /// kept apart: differences stay exact at any temperature, and a penalty sees the sign.
  struct Candidates {
    std::vector<TokenId> ids;
    std::vector<double> x;  // logit - greatest
    double greatest = 0;
    std::vector<double> p;  // of them; good where a step has asked for it

    void reserve(std::size_t n) {
      ids.reserve(n);
      x.reserve(n);
      p.reserve(n);
    }
    void start(std::span<const float> logits) {
      ids.clear();
      x.clear();
      greatest = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] == -std::numeric_limits<float>::infinity()) continue;
        ids.push_back(static_cast<TokenId>(i));
        x.push_back(logits[i]);
      }
      shift();
    }
    void shift() {
      const double above = *std::max_element(x.begin(), x.end());
      for (double& value : x) value -= above;
      greatest += above;
    }
    void divide_by(double temperature) {
      for (double& value : x) value /= temperature;
      greatest /= temperature;
    }
    void normalise() {
      p.resize(x.size());
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += p[i] = std::exp(x[i]);
      for (double& value : p) value /= sum;
    }
    template <typename Keep>
    void keep_where(Keep&& keep) {
      std::size_t to = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!keep(i)) continue;
        ids[to] = ids[i];
        x[to++] = x[i];
      }
      ids.resize(to);
      x.resize(to);
      shift();
    }
    double entropy() const {  // in nats
      double sum = 0;
      for (const double value : p) sum -= value > 0 ? value * std::log(value) : 0.0;
      return sum;
    }
  };

  void order_of(const SamplingOptions& options, bool penalised) {
    steps_.clear();
    const auto add = [&](Sampler sampler) {
      const bool done = penalised && (sampler == Sampler::kPenalties || sampler == Sampler::kDry);
      if (!done && options.uses(sampler)) steps_.push_back(sampler);
    };
    for (const Sampler sampler : options.samplers) add(sampler);
    if (!options.samplers.empty()) return;
    for (int i = 0; i < kSamplers; ++i) add(static_cast<Sampler>(i));
  }

  /// A penalty for the candidate of a token, if it is one.
  static auto changing(Candidates& left) {
    return [&left](TokenId token, auto&& penalised) {
      const auto place = std::lower_bound(left.ids.begin(), left.ids.end(), token);
      if (place == left.ids.end() || *place != token) return;
      double& x = left.x[idx(place - left.ids.begin())];
      x = penalised(x + left.greatest) - left.greatest;
    };
  }

  /// The rest of the steps, for candidates that are the case with probability `share`.
  void run(const SamplingOptions& options, std::span<const Sampler> steps, const Lookback& text,
           double most_surprise, Candidates& left, double share, Law& out) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i] == Sampler::kXtc) {
        without_ = left;  // nobody else is here: a list has it once
        if (!drop_top_choices(options.xtc_threshold, without_)) continue;
        const double dropped = options.xtc_probability;
        const auto rest = steps.subspan(i + 1);
        if (dropped < 1.0) {
          run(options, rest, text, most_surprise, left, share * (1.0 - dropped), out);
        }
        run(options, rest, text, most_surprise, without_, share * dropped, out);
        return;
      }
      step(steps[i], options, text, left);
    }
    if (options.mirostat != 0) keep_expected(most_surprise, left);
    left.normalise();
    mix(left, share, out);
  }

  void step(Sampler sampler, const SamplingOptions& options, const Lookback& text,
            Candidates& left) {
    switch (sampler) {
      case Sampler::kPenalties:
        adjustments_.for_each_penalised(options, text, changing(left));
        return left.shift();
      case Sampler::kDry:
        adjustments_.for_each_repeating(options, text, changing(left));
        return left.shift();
      case Sampler::kTemperature: return heat(options, left);
      case Sampler::kTopK: return keep_best(idx(options.top_k), left);
      case Sampler::kTypicalP: return keep_typical(options.typical_p, left);
      case Sampler::kTopP: return keep_top_p(options.top_p, left);
      case Sampler::kMinP: {
        left.normalise();
        const double greatest = *std::max_element(left.p.begin(), left.p.end());
        return left.keep_where(
            [&](std::size_t i) { return left.p[i] >= options.min_p * greatest; });
      }
      case Sampler::kTopNSigma: return keep_near_best(options.top_n_sigma, left);
      case Sampler::kXtc: return;  // run() splits there
    }
  }

  /// @source dynamic temperature: kalomaze 2023, llama.cpp#4972
  void heat(const SamplingOptions& options, Candidates& left) {
    double temperature = options.temperature;
    if (options.dynatemp_range > 0.0f && left.x.size() > 1) {
      left.normalise();
      const double least = std::max(0.0, temperature - options.dynatemp_range);
      const double most = temperature + options.dynatemp_range;
      const double unsure = left.entropy() / std::log(static_cast<double>(left.x.size()));
      temperature = least + (most - least) * std::pow(unsure, options.dynatemp_exponent);
    }
    temperature > 0 ? left.divide_by(temperature) : keep_best(1, left);
  }

  /// Places of `left` in an order; of those that compare alike the lower id comes first.
  template <typename Before>
  std::span<const std::size_t> sorted(const Candidates& left, Before&& before) {
    order_.resize(left.x.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    // That of std::stable_sort, which allocates.
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return before(a, b) || (!before(b, a) && a < b);
    });
    return order_;
  }
  static auto likelier_in(const Candidates& left) {
    return [&left](std::size_t a, std::size_t b) { return left.x[a] > left.x[b]; };
  }

  /// Keep the first `n` places of order_.
  void keep_first(std::size_t n, Candidates& left) {
    keep_.assign(left.x.size(), false);
    for (std::size_t i = 0; i < n; ++i) keep_[order_[i]] = true;
    left.keep_where([this](std::size_t i) { return keep_[i]; });
  }

  /// Keep the fewest of order_ whose probability reaches `enough`.
  void keep_until(double enough, Candidates& left) {
    std::size_t n = 0;
    double mass = 0;
    do {
      mass += left.p[order_[n++]];
    } while (n < order_.size() && mass < enough);
    keep_first(n, left);
  }

  void keep_best(std::size_t k, Candidates& left) {
    if (k >= left.x.size()) return;
    values_ = left.x;
    const auto kth = values_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(values_.begin(), kth, values_.end(), std::greater<>());
    auto ties = static_cast<std::ptrdiff_t>(k) -
                std::count_if(left.x.begin(), left.x.end(), [&](double x) { return x > *kth; });
    left.keep_where([&, bar = *kth](std::size_t i) {
      return left.x[i] > bar || (left.x[i] == bar && ties-- > 0);
    });
  }

  /// @source Holtzman et al. 2019, arXiv:1904.09751
  void keep_top_p(double top_p, Candidates& left) {
    left.normalise();
    sorted(left, likelier_in(left));
    keep_until(top_p, left);
  }

  /// By |surprise - entropy|, the least first. @source Meister et al. 2022, arXiv:2202.00666
  void keep_typical(double typical_p, Candidates& left) {
    left.normalise();
    const double entropy = left.entropy();
    values_.clear();  // how far each is from what is expected
    for (const double p : left.p) values_.push_back(std::abs(-std::log(p) - entropy));
    sorted(left, [this](std::size_t a, std::size_t b) { return values_[a] < values_[b]; });
    keep_until(typical_p, left);
  }

  /// @source Tang et al. 2024, arXiv:2411.07641
  static void keep_near_best(double n_sigma, Candidates& left) {
    const auto n = static_cast<double>(left.x.size());
    double mean = 0;
    for (const double x : left.x) mean += x / n;
    double variance = 0;
    for (const double x : left.x) variance += (x - mean) * (x - mean) / n;
    const double bar = -n_sigma * std::sqrt(variance);  // the greatest is 0
    left.keep_where([&](std::size_t i) { return left.x[i] >= bar; });
  }

  /// XTC, "exclude top choices": drop all that reach the threshold but the last of them.
  /// @return whether there is something to drop
  /// @source p-e-w 2024, text-generation-webui#6335
  bool drop_top_choices(double threshold, Candidates& left) {
    left.normalise();
    sorted(left, likelier_in(left));
    std::size_t n = 0;
    while (n < order_.size() && left.p[order_[n]] >= threshold) ++n;
    if (n < 2) return false;
    keep_.assign(left.x.size(), true);
    for (std::size_t i = 0; i + 1 < n; ++i) keep_[order_[i]] = false;
    left.keep_where([this](std::size_t i) { return keep_[i]; });
    return true;
  }

  /// Mirostat 2: drop what surprises by more than the bound; where all do, keep the best.
  /// @source Basu et al. 2020, arXiv:2007.14966, Alg. 2
  void keep_expected(double most_surprise, Candidates& left) {
    left.normalise();
    const auto expected = [=](double p) { return -std::log2(p) <= most_surprise; };
    if (std::none_of(left.p.begin(), left.p.end(), expected)) return keep_best(1, left);
    left.keep_where([&](std::size_t i) { return expected(left.p[i]); });
  }

  /// out += share * the law of `left`.
  void mix(const Candidates& left, double share, Law& out) {
    mixed_.clear();
    std::size_t j = 0;
    const auto add = [this](TokenId id, double p) {
      if (!(p > 0)) return;  // next to nothing is nothing, as everywhere
      mixed_.ids.push_back(id);
      mixed_.p.push_back(p);
    };
    for (std::size_t i = 0; i < left.ids.size(); ++i) {
      for (; j < out.size() && out.ids[j] < left.ids[i]; ++j) add(out.ids[j], out.p[j]);
      const bool both = j < out.size() && out.ids[j] == left.ids[i];
      add(left.ids[i], share * left.p[i] + (both ? out.p[j++] : 0.0));
    }
    for (; j < out.size(); ++j) add(out.ids[j], out.p[j]);
    std::swap(out, mixed_);
  }

  // Buffers.
  Candidates left_;
  Candidates without_;  // the other side of XTC
  std::vector<Sampler> steps_;
  std::vector<std::size_t> order_;
  std::vector<bool> keep_;
  std::vector<double> values_;
  Law mixed_;
  LogitAdjustments adjustments_;
};

}  // namespace foredraft::inline v0
