#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace cli {

/// What the chosen subcommand does once all arguments are read. Returns the exit status.
using Action = std::function<int()>;

/// Each adds one subcommand; where the user chooses it, `action` becomes its work.
void add_generate(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_logits(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_ngram(CLI::App& app, Action& action);
void add_batch(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);

}  // namespace cli
