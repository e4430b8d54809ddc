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
using Sequence = fd::Sequence<Model, Cache, fd::NoDraft, fd::Greedy>;  // or others

struct Writer {
  Writer(Model& model, const Tokens& prompt)
      : sequence(model, Cache{model.shape(), 256}, {}, {}),
        call(std::make_shared<fd::Call>(fd::Options{.max_tokens = 64}, model, fd::Greedy{})) {
    sequence.begin(prompt);
  }
  Sequence sequence;
  std::shared_ptr<fd::Call> call;
  std::optional<fd::PromptTurn<Sequence>> reader;  // while the prompt is read
  std::optional<fd::Turn<Sequence>> turn;
  bool ended = false;  // said once
};

/// Write behind all prompts at once. Who has ended leaves; the others go on. `n` counts tokens.
std::vector<Tokens> write(Model& model, std::span<const Tokens> prompts, std::size_t& n) {
  std::vector<Tokens> texts(prompts.size());
  std::deque<Writer> writers;  // a sequence must not move under its turn
  for (const Tokens& prompt : prompts) writers.emplace_back(model, prompt);
  for (;;) {
    std::vector<fd::Request<Cache>> requests;
    for (std::size_t i = 0; i < writers.size(); ++i) {
      auto& [sequence, call, reader, turn, ended] = writers[i];
      reader.reset(), turn.reset();
      const auto emit = [&](const fd::Emitted& e) { texts[i].push_back(e.token), ++n; };
      sequence.deliver(emit);
      if (ended |= sequence.take_end(*call).has_value()) continue;
      requests.push_back(sequence.reading() ? reader.emplace(sequence, call).request()
                                            : turn.emplace(sequence, call).request());
    }
    if (requests.empty()) break;
    model.forward(std::span(requests));
    for (Writer& w : writers) {
      if (w.reader) w.reader->finish();
      if (w.turn) w.turn->finish();
    }
  }
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
    std::size_t n = 0;
    for (std::size_t i = 0, step = together ? prompts.size() : 1; i < prompts.size(); i += step)
      for (Tokens& text : write(model, {&prompts[i], step}, n)) texts[together].push_back(text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const char* const how = together ? "together" : "one after the other";
    std::printf("%-20s %8.1f tokens/s\n", how, static_cast<double>(n) / seconds.count());
  }
  return texts[0] == texts[1] ? 0 : (std::puts("the texts differ"), 1);
}
