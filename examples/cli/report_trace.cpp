#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

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

int run(Arguments& a) {
  if (a.page.empty() && a.chrome.empty()) {
    a.page = std::filesystem::path(a.trace).replace_extension(".html").string();
  }
  for (const std::string& output : {a.page, a.chrome}) {
    if (!output.empty() && output == a.trace) {
      throw UsageError("output to " + output + ", which is the trace", "another file",
                       "the trace would be lost");
    }
  }
  const std::vector<Json> texts = read_trace(a.trace);
  if (!a.page.empty()) write_file(a.page, report_page(texts));
  if (!a.chrome.empty()) write_file(a.chrome, chrome_trace(texts).dump());
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Make a page of a trace that 'generate --trace' wrote: who drafted what, what was "
      "accepted, and where the time went.");
  const auto a = std::make_shared<Arguments>();
  require_text(command->add_option("TRACE", a->trace, "the trace")->required());
  require_text(add_value(*command, "-o,--output FILE", a->page,
                         "the page, which needs no network [TRACE with .html]"));
  require_text(add_value(*command, "--chrome FILE", a->chrome,
                         "the times as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing"));
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
