#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "arguments.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "trace_file.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string trace;
  std::string page;
  std::string chrome;
};

void write_file(const std::string& name, const std::string& content) {
  std::ofstream out(name, std::ios::binary);
  out << content;
  if (!out.flush()) {
    throw fd::Error(fd::ErrorCode::kIo, name + ": cannot be written", "a file that can be written",
                    "name another");
  }
  write_out("wrote " + name + "\n");
}

/// Where the file is, or will be; the name itself where that cannot be found out.
std::filesystem::path place_of(const std::string& name) {
  std::error_code error;
  // Absolute first: a name of which no part exists would stay relative.
  const auto absolute = std::filesystem::absolute(name, error);
  const auto place = std::filesystem::weakly_canonical(absolute, error);
  return error ? std::filesystem::path(name) : place;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;  // one that is not there yet is no other one
  return std::filesystem::equivalent(a, b, ignored) || place_of(a) == place_of(b);
}

void check_outputs(const Arguments& a) {
  for (const std::string& output : {a.page, a.chrome}) {
    if (output.empty() || !same_file(output, a.trace)) continue;
    throw UsageError("output to " + output + ", which is the trace", "another file",
                     "the trace would be lost");
  }
  if (a.page.empty() || a.chrome.empty() || !same_file(a.page, a.chrome)) return;
  throw UsageError("-o and --chrome to " + a.chrome, "a file for each", "the page would be lost");
}

int run(Arguments& a) {
  if (a.page.empty() && a.chrome.empty()) {
    a.page = std::filesystem::path(a.trace).replace_extension(".html").string();
  }
  check_outputs(a);
  const std::vector<Json> texts = read_trace(a.trace);
  if (!a.page.empty()) write_file(a.page, report_page(texts));
  if (!a.chrome.empty()) write_file(a.chrome, chrome_trace(texts).dump());
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Make a page of a trace that --trace wrote: who drafted what, what was accepted, and where "
      "the time went.");
  const auto a = std::make_shared<Arguments>();
  require_text(command->add_option("TRACE", a->trace, "the trace")->required());
  require_text(add_value(*command, "-o,--output FILE", a->page,
                         "the page, which needs no network [TRACE with .html]"));
  require_text(add_value(*command, "--chrome FILE", a->chrome,
                         "the times as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing"));
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
