#pragma once

#include <optional>

#include <foredraft/core/error.hpp>

/// The code of the foredraft::Error that f() throws; nothing where it throws none.
template <typename F>
std::optional<foredraft::ErrorCode> code_of(F&& f) {
  try {
    f();
  } catch (const foredraft::Error& error) {
    return error.code();
  }
  return std::nullopt;
}
