#include <csignal>
#include <cstddef>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include <foredraft/core/error.hpp>

#include "commands.hpp"
#include "generate_arguments.hpp"
#include "http.hpp"
#include "interrupt.hpp"
#include "models.hpp"
#include "ngram_file.hpp"
#include "openai_request.hpp"
#include "output.hpp"
#include "scheduler.hpp"
#include "survey.hpp"
#include "target.hpp"
#include "terminal.hpp"
#include "together.hpp"

namespace cli {

namespace {

struct Arguments {
  GenerateArguments generate;
  std::string host = "127.0.0.1";
  int port = 8080;
  int parallel = 4;
  int store_mib = 1024;
  std::string key;
};

/// The line that tells that the server is there, and where.
std::string greeting(const Arguments& asked, const Method& method, int port) {
  const bool v6 = asked.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + asked.host + "]" : asked.host;
  return formatted("foredraft: serving on http://%s:%d (%d texts at once, contexts of %d tokens)\n",
                   visible(host).c_str(), port, asked.parallel, method.n_ctx);
}

std::string summary(const Scheduler::State& state) {
  const fd::Stats& stats = state.stats;
  return formatted("texts: %lld, %lld tokens of prompts, of which %lld were known\n",
                   static_cast<long long>(state.done), static_cast<long long>(stats.prompt_tokens),
                   static_cast<long long>(stats.reused_tokens)) +
         formatted("decode: %lld tokens; %lld drafted, %lld accepted\n",
                   static_cast<long long>(stats.emitted), static_cast<long long>(stats.drafted),
                   static_cast<long long>(stats.accepted));
}

int run(Arguments& asked) {
  GenerateArguments& a = asked.generate;
  Method method = a.resolve();
  check_http();
  const ModelSettings settings = a.models(method);
  Models models(settings);
  const fd::Tokenizer& tokenizer = models.target.tokenizer();
  a.more_sampling.complete(a.options, tokenizer);
  method.n_ctx = a.n_ctx > 0 ? a.n_ctx : default_context(models.target.config().n_ctx);
  method.ngrams = read_tables(a.lookup_static, {}, tokenizer);
  method.constrained = true;  // a request may ask for it

  const auto together = models.target.make_together(models, method, asked.parallel);
  together->use_store(std::size_t(asked.store_mib) << 20);
  models.print_note();
  const RequestReader reader(tokenizer, a.chat_format, a.options, method.n_ctx);
  const InterruptGuard guard(InterruptGuard::Second::kEnds, {SIGINT, SIGTERM});
  const HttpServer* running = nullptr;
  Scheduler scheduler(*together, asked.parallel, [&running] {
    return InterruptGuard::interrupted() || (running != nullptr && running->ended());
  });
  {
    HttpServer server({.host = asked.host,
                       .port = asked.port,
                       .key = asked.key,
                       .model = settings.target.stem().string(),
                       .sequence = a.seed ? 0 : std::random_device()()},
                      tokenizer, reader, scheduler);
    server.start();
    running = &server;
    std::cerr << greeting(asked, method, server.port()) << std::flush;
    scheduler.run();
    running = nullptr;
  }
  std::cerr << summary(scheduler.state());
  if (InterruptGuard::interrupted()) return 0;
  throw fd::Error(fd::ErrorCode::kIo, "a port that was lost", "one that stays");
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "serve",
      "Answer requests of the OpenAI API over HTTP, several at once in passes that they share. "
      "Each text is that of 'generate'. A page to chat with the model is at /. Ctrl-C ends the "
      "server.");
  const auto a = std::make_shared<Arguments>();
  a->generate.add_to_server(*command);
  require_text(add_value(*command, "--host ADDRESS", a->host,
                         "address to listen on; 0.0.0.0: all of this machine's [127.0.0.1]"));
  add_number(*command, "--port N", a->port, 0, 65535,
             "port to listen on; 0: one that is free [8080]");
  add_number(*command, "--parallel N", a->parallel, 1, 256,
             "texts at once, each with a context [4]");
  add_number(*command, "--cache-ram MIB", a->store_mib, 0, 1 << 20,
             "memory for beginnings of texts that need not be read again [1024]");
  require_text(add_value(*command, "--api-key KEY", a->key, "what requests have to carry"));
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
