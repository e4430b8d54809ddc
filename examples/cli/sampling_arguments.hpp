#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <foredraft/core/options.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "arguments.hpp"

namespace cli {

/// The options of sampling besides temperature, top-k, top-p, min-p and the penalties. The names are
/// llama.cpp's, where it has one.
class SamplingArguments {
 public:
  /// Values go to `options`, which must outlive the parsing.
  void add_to(CLI::App& command, fd::Options& options);

  /// What needs no vocabulary: biases and the order. @errors UsageError
  void resolve(fd::Options& options) const;

  /// What does: words, breakers, markers. @errors UsageError
  void complete(fd::Options& options, const fd::Tokenizer& tokenizer) const;

 private:
  void add_dry(CLI::App& command, fd::SamplingOptions& sampling);
  void add_others(CLI::App& command, fd::SamplingOptions& sampling);
  void add_reasoning(CLI::App& command, fd::SamplingOptions& sampling);

  std::vector<std::string> biases_;     // "15043+1"
  std::vector<std::string> bad_words_;  // texts
  std::vector<std::string> breakers_;   // texts; "none" alone for no breaker
  std::string samplers_;                // "top_k;temperature"
  std::string message_;                 // of the reasoning budget
  std::string reasoning_format_;        // empty: what the vocabulary has
};

}  // namespace cli
