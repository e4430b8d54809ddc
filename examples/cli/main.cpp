#include <exception>
#include <iostream>
#include <new>
#include <string>

#include <CLI/CLI.hpp>

#include <foredraft/core/error.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "terminal.hpp"
#include "usage.hpp"

namespace {

namespace fd = foredraft;

int complain(int status, const std::string& what) {
  std::cerr << "foredraft: error: " << cli::visible(what) << '\n';
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("Speculative decoding of language models: the same text, sooner.", "foredraft");
  app.formatter(cli::help_formatter());
  app.set_version_flag("--version", "foredraft " + cli::version());
  app.require_subcommand(1);
  app.footer(
      "'foredraft COMMAND --help' lists the options of a command. Models are GGUF files; "
      "python3 examples/fetch_model.py --list shows some.");
  cli::Action action;
  cli::add_generate(app, action);
  cli::add_batch(app, action);
  cli::add_chat(app, action);
  cli::add_serve(app, action);
  cli::add_inspect(app, action);
  cli::add_tokenize(app, action);
  cli::add_logits(app, action);
  cli::add_bench(app, action);
  cli::add_report(app, action);
  cli::add_ngram(app, action);
  cli::add_tune(app, action);
  // CLI11 only fills in the arguments. The work comes behind it: its errors are not CLI11's.
  try {
    app.parse(cli::reversed_arguments(argc, argv));
  } catch (const CLI::Success& wish) {  // --help, --version
    return app.exit(wish);
  } catch (const CLI::ParseError& error) {
    throw cli::usage_error(error, app);
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const fd::Error& error) {
    // Whoever typed the options can mend them: another status than that of files and machines.
    const bool usage = error.code() == fd::ErrorCode::kInvalidOption;
    return complain(usage ? cli::kExitUsage : cli::kExitFailure, error.what());
  } catch (const std::bad_alloc&) {  // behind all estimates of memory, so without a number
    const fd::Error error(fd::ErrorCode::kOutOfMemory, "no memory left", "more memory",
                          "a smaller context (-c) or a smaller model");
    return complain(cli::kExitFailure, error.what());
  } catch (const std::exception& error) {
    return complain(cli::kExitFailure, error.what());
  }
}
