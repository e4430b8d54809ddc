// Snippets of pages, with a model that a test can make.

#include <foredraft/models.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

TEST_CASE("the README's program") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string target_file = folder / "foredraft-readme-target.gguf";
  const std::string draft_file = folder / "foredraft-readme-draft.gguf";
  TinyModel tiny;
  for (const auto& file : {target_file, draft_file}) {
    const auto bytes = tiny.file();
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    tiny.n_layers = 1;
  }
  std::ostringstream shown;

  const auto& target_path = target_file;
  const auto& draft_path = draft_file;
  std::ostream& out = shown;

  // README: begin
  fd::Cpu cpu{{.threads = 2}};  // one pool of threads for every model of the program
  auto target = fd::load(cpu, target_path);
  auto draft = fd::load_draft(cpu, draft_path);
  fd::Decoder decoder{target, target.make_cache(),
                      fd::Chain{fd::PromptLookup{}, fd::ModelDrafter{draft}},  // whichever pays
                      fd::RejectionSampling{}};
  const auto prompt = target.tokenizer().encode("Once upon a time");
  const auto result =
      decoder.generate(prompt, {.max_tokens = 64, .sampling = {.temperature = 0.7f}},
                       [&](const fd::Emitted& token) { out << token.text; });
  out << result.stats;  // rounds, drafted, accepted per position, tokens/s, seconds of each part
  out << result.speculation;  // what each drafter brought, and why one is left out now
  // README: end

  CHECK(!result.tokens.empty());
  // At a depth that is asked for. Without one, nothing may pay: this model takes microseconds.
  CHECK(
      decoder.generate(prompt, {.max_tokens = 64, .n_draft = 8, .sampling = {.temperature = 0.7f}})
          .stats.drafted > 0);
  CHECK(result.speculation.find("asked") != std::string::npos);
  CHECK(shown.str().find("tokens/s") != std::string::npos);
  CHECK(shown.str().find("asked") != std::string::npos);
  std::filesystem::remove(target_file);
  std::filesystem::remove(draft_file);
}

TEST_CASE("a batch as the page shows it") {
  TinyPair models;
  fd::Model<fd::Cpu>&target = models.target, &draft = models.draft;
  const std::vector<fd::TokenId> prompt{1, 5, 2, 9}, longer_prompt(30, 3);
  fd::Decoder one{target, target.make_cache({.n_ctx = 200}), fd::ModelDrafter{draft, {}, 200},
                  fd::Greedy{}};
  fd::Decoder other{target, target.make_cache({.n_ctx = 60}), fd::PromptLookup{},
                    fd::SampleAndMatch{}};
  // docs/howto/answer-many-prompts.md: begin
  fd::Batch batch{target};  // {target, draft}: texts share the passes of a draft model, too
  auto first = batch.generate(one, prompt, {.max_tokens = 40});
  auto second = batch.generate(other, longer_prompt);
  batch.run();
  const fd::Result answer = first.get();
  // docs/howto/answer-many-prompts.md: end
  CHECK(second.get().tokens == other.generate(longer_prompt).tokens);
  CHECK(answer.tokens == one.generate(prompt, {.max_tokens = 40}).tokens);
  fd::Batch shared{target, draft};
  auto again = shared.generate(one, prompt, {.max_tokens = 40, .n_draft = 4});
  shared.run();
  const fd::Result drafted = again.get();
  CHECK(drafted.tokens == answer.tokens);
  CHECK(drafted.stats.drafted > 0);
}
