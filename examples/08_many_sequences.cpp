// 08 Many sequences: a pass of a real model for the rows of all, against one text after the other.
//
//   python3 examples/fetch_model.py smollm2-135m
//   build/release/examples/example.08_many_sequences ~/.cache/foredraft/models/smollm2-135m.gguf

#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <foredraft/models.hpp>

namespace fd = foredraft;

using Tokens = std::vector<fd::TokenId>;
using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
// Any drafter and rule: what is drafted shares the pass, too.
using Sequence = fd::Sequence<Model, Cache, fd::NoDraft, fd::Greedy>;

/// One text among others.
struct Writer {
  Writer(Model& model, const Tokens& prompt)
      : sequence(model, Cache{model.shape(), 256}, {}, {}),
        call(std::make_shared<fd::Call>(fd::Options{.max_tokens = 64}, model, fd::Greedy{})) {
    sequence.begin(prompt);
  }
  Sequence sequence;
  std::shared_ptr<fd::Call> call;
  Tokens text;
  std::optional<fd::PromptTurn<Sequence>> reader;  // while the prompt is read
  std::optional<fd::Turn<Sequence>> turn;
};

/// Write behind all prompts at once. Who has ended leaves; the others go on.
std::vector<Tokens> write(Model& model, std::span<const Tokens> prompts) {
  std::deque<Writer> writers;  // a sequence must not move under its turn
  for (const Tokens& prompt : prompts) writers.emplace_back(model, prompt);
  for (;;) {
    std::vector<fd::Request<Cache>> requests;
    for (Writer& w : writers) {
      w.reader.reset();
      w.turn.reset();
      const auto emit = [&w](const fd::Emitted& emitted) { w.text.push_back(emitted.token); };
      w.sequence.deliver(emit);
      if (w.sequence.take_end(*w.call)) continue;
      requests.push_back(w.sequence.reading() ? w.reader.emplace(w.sequence, w.call).request()
                                              : w.turn.emplace(w.sequence, w.call).request());
    }
    if (requests.empty()) break;
    model.forward(std::span(requests));
    for (Writer& w : writers) w.reader ? w.reader->finish() : w.turn ? w.turn->finish() : void();
  }
  std::vector<Tokens> texts;
  for (const Writer& w : writers) texts.push_back(w.text);
  return texts;
}

int main(int argc, char** argv) {
  if (argc != 2) return std::puts("usage: example.08_many_sequences MODEL.gguf"), 2;
  fd::Cpu cpu;
  auto model = fd::load(cpu, argv[1]);
  std::vector<Tokens> prompts;
  for (const char* text : {"Once upon a time", "def fibonacci(n):", "Water boils", "Dear Sir,"})
    prompts.push_back(model.tokenizer().encode(text, {.add_bos = true}));
  std::vector<Tokens> texts[2];
  for (const bool together : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t at_once = together ? prompts.size() : 1;
    for (std::size_t i = 0; i < prompts.size(); i += at_once) {
      for (const Tokens& text : write(model, std::span(prompts).subspan(i, at_once)))
        texts[together].push_back(text);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::size_t n = 0;
    for (const Tokens& text : texts[together]) n += text.size();
    std::printf("%-20s %8.1f tokens/s\n", together ? "together" : "one after the other",
                static_cast<double>(n) / seconds.count());
  }
  return texts[0] == texts[1] ? 0 : (std::puts("the texts differ"), 1);
}
