#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <foredraft/foredraft.hpp>

#include "drafter/given_costs.hpp"
#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/toy_target.hpp"

/// Whatever a controller makes of its drafters, greedy and matched texts are the plain ones.
/// @param fill  gives a chain its drafters
template <foredraft::Shape S>
void check_controlled_chain(const std::string& name,
                            const std::function<void(given::Chain<S>&)>& fill) {
  namespace fd = foredraft;
  using given::Costs;
  toy::Target target(12, 1, 3.0);
  fd::Decoder plain{target, toy::TokenCache(400, 64), fd::NoDraft{}, fd::SampleAndMatch{}};
  for (const Costs costs : {Costs::kMeasured, Costs::kNone, Costs::kSenseless}) {
    CAPTURE(name, static_cast<int>(costs));
    given::reading = 0;
    given::Chain<S> chain(costs);
    fill(chain);
    fd::Decoder decoder{target, toy::TokenCache(400, 64), std::move(chain), fd::SampleAndMatch{}};
    Drafted drafted;
    for (int request = 0; request < 12; ++request) {
      const std::vector<fd::TokenId> prompt{request % 5, 3, request % 12, 1, 4};
      fd::Options options{.max_tokens = 120, .prefill_block = 2};
      options.sampling.temperature = request % 2 == 0 ? 0.0f : 0.7f;
      options.seed = static_cast<std::uint64_t>(request / 4);
      const auto result = decoder.generate(prompt, options);
      CHECK(result.tokens == plain.generate(prompt, options).tokens);
      drafted.add(result);
    }
    if (costs != Costs::kMeasured) CHECK(drafted.both());
  }
}

/// The same with one drafter.
template <foredraft::Shape S>
void check_controlled_texts(const std::string& name,
                            const std::function<foredraft::AnyDrafter<S>()>& make) {
  check_controlled_chain<S>(name, [&](given::Chain<S>& chain) { chain.add(name, make()); });
}
