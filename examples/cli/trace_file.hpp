#pragma once

#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <foredraft/io/tokenizer.hpp>
#include <foredraft/trace/trace_writer.hpp>

#include "output.hpp"
#include "usage.hpp"

namespace cli {

/// The file of --trace; of an empty name, nothing is written.
class TraceFile {
 public:
  /// @errors kIo
  explicit TraceFile(std::string name);

  /// Names of tokens and drafters, known once the models are.
  /// @param tokenizer  refers to it
  void describe(const fd::Tokenizer& tokenizer, std::vector<std::string> drafters);
  void begin(std::span<const fd::TokenId> prompt, fd::Options& options);
  /// @errors kIo where any line could not be written
  void end(const fd::Result& result);

 private:
  std::string name_;
  std::ofstream out_;
  std::optional<fd::TraceWriter> writer_;
};

/// A text of a trace, checked: `rounds` and all their keys are there and of the right type.
/// @errors kIo; kCorruptFile, with the number of the line. An unfinished last line, as a killed program
///   leaves it, is left out.
std::vector<Json> read_trace(const std::string& name);

/// For Perfetto and chrome://tracing, in the Trace Event Format: a process for each text, in it a row
/// for each part of rounds, and counters of depth and accepted tokens.
Json chrome_trace(const std::vector<Json>& texts);

/// One page for a browser, without anything from elsewhere.
std::string report_page(const std::vector<Json>& texts);

}  // namespace cli
