#pragma once

#include <string_view>

#include "everything.hpp"

using FunctionPointer = std::string_view (*)(foredraft::ErrorCode) noexcept;
FunctionPointer seen_by_second();
