#pragma once

// The one include through which tests see Catch2: Debian 12 ships v2, newer systems v3.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
