#pragma once

#include <span>

#include <foredraft/core/concepts.hpp>

#include "support/toy_target.hpp"

/// A target whose cache cannot be truncated.
namespace forwards {

namespace fd = foredraft;

/// A cache that can only go forwards, as recurrent states do.
class ForwardCache : private toy::TokenCache {
 public:
  using toy::TokenCache::capacity;
  using toy::TokenCache::commit;
  using toy::TokenCache::discard;
  using toy::TokenCache::max_staged;
  using toy::TokenCache::restore;
  using toy::TokenCache::size;
  using toy::TokenCache::Snapshot;
  using toy::TokenCache::snapshot;
  using toy::TokenCache::stage;
  using toy::TokenCache::staged;
  toy::TokenCache& tokens() { return *this; }
};
static_assert(fd::Cache<ForwardCache> && !fd::Truncatable<ForwardCache>);

struct Target : toy::Target {
  using toy::Target::forward;
  using toy::Target::Target;
  void forward(std::span<fd::Request<ForwardCache>> requests) {
    for (auto& r : requests) {
      fd::Request<toy::TokenCache> request{&r.cache->tokens(), r.first, r.count, r.want, r.scores};
      toy::Target::forward({&request, 1});
    }
  }
};

}  // namespace forwards
