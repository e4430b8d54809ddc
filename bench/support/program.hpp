#pragma once

#include <exception>
#include <iostream>
#include <utility>

#include <CLI/CLI.hpp>

namespace bench {

/// The end of every main(): reads the command line, then runs `body`, whose errors are told and make
/// the status 1.
template <typename Body>
int run_program(CLI::App& app, int argc, char** argv, Body&& body) {
  CLI11_PARSE(app, argc, argv);
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace bench
