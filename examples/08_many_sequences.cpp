// 08 Many sequences: texts of a real model that share its passes, against one text after the other.
//
//   python3 examples/fetch_model.py smollm2-135m
//   build/release/examples/example.08_many_sequences ~/.cache/foredraft/models/smollm2-135m.gguf

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <future>
#include <string>
#include <vector>

#include <foredraft/models.hpp>

namespace fd = foredraft;

using Model = fd::Model<fd::Cpu>;

/// A text for each prompt, all of them at once: whatever drafts, and whoever ends first.
std::vector<fd::Result> write(Model& model, const std::vector<std::string>& prompts) {
  const auto make = [&] {
    return fd::Decoder{model, model.make_cache(), fd::PromptLookup{}, fd::Greedy{}};
  };
  std::deque<decltype(make())> decoders;  // one stays where it is while its text is written
  std::vector<std::future<fd::Result>> texts;
  fd::Batch batch{model};
  for (const std::string& prompt : prompts) {
    decoders.push_back(make());
    texts.push_back(batch.generate(
        decoders.back(), model.tokenizer().encode(prompt, {.add_bos = true}), {.max_tokens = 64}));
  }
  batch.run();
  std::vector<fd::Result> results;
  for (auto& text : texts) results.push_back(text.get());
  return results;
}

int main(int argc, char** argv) {
  if (argc != 2) return std::puts("usage: example.08_many_sequences MODEL.gguf"), 2;
  fd::Cpu cpu;
  auto model = fd::load(cpu, argv[1]);
  const std::vector<std::string> prompts{"Once upon a time", "def fibonacci(n):", "Water boils",
                                         "Dear Sir,"};
  std::vector<std::string> texts[2];
  for (const bool together : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    std::size_t n = 0;
    for (std::size_t i = 0; i < prompts.size(); i += together ? prompts.size() : 1) {
      for (const auto& result : write(model, together ? prompts : std::vector{prompts[i]})) {
        texts[together].push_back(result.text);
        n += result.tokens.size();
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%-20s %8.1f tokens/s\n", together ? "together" : "one after the other",
                static_cast<double>(n) / seconds.count());
  }
  return texts[0] == texts[1] ? 0 : (std::puts("the texts differ"), 1);
}
