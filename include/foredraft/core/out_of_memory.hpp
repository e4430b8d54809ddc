#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// What f() returns. Where memory runs out in it, also for more elements than any memory has, that
/// is said as what it is for: input decides how much is needed, so it is an error like others.
/// @errors kOutOfMemory
template <typename F>
decltype(auto) or_out_of_memory(std::string_view what, F&& f) {
  const auto refusal = [what] {
    return Error(ErrorCode::kOutOfMemory, "no memory for " + std::string(what), "more of it",
                 "is memory limited (ulimit -v)? is the file what it should be?");
  };
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    throw refusal();
  } catch (const std::length_error&) {
    throw refusal();
  }
}

}  // namespace foredraft::inline v0
