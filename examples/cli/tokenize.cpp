#include <memory>
#include <string>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "model_path.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string model;
  TextArgument text;
  bool parse_special = false;
  bool bos = false;
  bool json = false;
};

int run(const Arguments& a) {
  a.text.check();
  const auto model = find_model(a.model);
  const std::string text = a.text.read();
  // No Models: a vocabulary needs no weights, and shows its tokens where no family runs the file.
  const auto tokenizer = fd::Tokenizer::from(fd::Gguf::open(model));
  const auto tokens = tokenizer.encode(text, {.add_bos = a.bos, .parse_special = a.parse_special});
  if (a.json) {
    print_json(Json::object({{"tokens", tokens}}));
    return 0;
  }
  std::string table;
  for (const fd::TokenId token : tokens) {
    table += formatted("%7d  ", token) + excerpt(tokenizer.piece(token, true), 60) + "\n";
  }
  write_out(table + std::to_string(tokens.size()) + " tokens\n");
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens of a text.");
  const auto a = std::make_shared<Arguments>();
  add_model_option(*command, a->model);
  a->text.add_to(*command, "the text");
  command->add_flag("--parse-special", a->parse_special,
                    "names of special tokens in the text are those tokens, not their letters");
  command->add_flag("--bos", a->bos, "begin with BOS where the model asks for it");
  add_json_flag(*command, a->json);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
