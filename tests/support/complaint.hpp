#pragma once

#include <string>

#include <foredraft/core/error.hpp>

#include "support/catch.hpp"

/// What foredraft::check() finds wrong with options, or nothing.
template <typename Options>
std::string complaint_about(const Options& options) {
  try {
    check(options);
    return {};
  } catch (const foredraft::Error& error) {
    CHECK(error.code() == foredraft::ErrorCode::kInvalidOption);
    CHECK_FALSE(error.expected().empty());
    CHECK_FALSE(error.hint().empty());
    return error.found();
  }
}
