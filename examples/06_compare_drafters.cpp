// 06 Compare drafters: the same answers of a real model under each drafter, in turns.
//
//   python3 examples/fetch_model.py smollm2-135m
//   build/release/examples/example.06_compare_drafters ~/.cache/foredraft/models/smollm2-135m.gguf

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <foredraft/io/chat_format.hpp>
#include <foredraft/models.hpp>

namespace fd = foredraft;

using Drafter = fd::AnyDrafter<fd::Shape::kTree>;  // trees and chains; Greedy verifies both

struct Candidate {
  std::string name;
  Drafter drafter;
  double log_ratio = 0;  // sum over the prompts
  fd::Stats stats = {};
};

const std::string kCode =
    "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n";
const std::string kPrompts[] = {
    "Rename the argument of this function to numbers and print the whole function:\n" + kCode,
    "Explain in three sentences why the sky is blue.",
    "Write the numbers from 1 to 20, one a line.",
};

std::vector<fd::TokenId> encode(const fd::Tokenizer& tokenizer, const std::string& question) {
  const auto chat = fd::recognize_chat_template(tokenizer.vocabulary().chat_template());
  const fd::ChatMessage message{"user", question};
  return tokenizer.encode(fd::format_chat(chat, {&message, 1}),
                          {.add_bos = true, .parse_special = true});
}

int main(int argc, char** argv) {
  if (argc != 2) return std::puts("usage: example.06_compare_drafters MODEL.gguf"), 2;
  fd::Cpu cpu;
  auto target = fd::load(cpu, argv[1]);

  std::vector<Candidate> candidates;
  candidates.push_back({"none", fd::NoDraft{}});
  candidates.push_back({"lookup", fd::PromptLookup{}});
  candidates.push_back({"ngram-cache", fd::NgramCache{}});
  candidates.push_back({"suffix", fd::SuffixDecoding<fd::Shape::kTree>{}});
  candidates.push_back({"recycling", fd::TokenRecycling<fd::Shape::kTree>{}});
  // Yours goes here: examples/03_your_own_drafter.cpp

  using Decoder =
      fd::DecoderFor<fd::Cpu, fd::LinearCache<fd::f16>, fd::Controlled<Drafter>, fd::Greedy>;
  std::vector<Decoder> decoders;  // kept from prompt to prompt: controllers learn
  for (Candidate& c : candidates) {
    decoders.emplace_back(target, fd::LinearCache<fd::f16>{target.shape(), 1024},
                          std::move(c.drafter), fd::Greedy{});
  }
  for (const std::string& question : kPrompts) {
    const auto prompt = encode(target.tokenizer(), question);
    fd::Result plain;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const fd::Result result = decoders[i].generate(prompt, {.max_tokens = 96});
      if (i == 0) plain = result;
      if (result.tokens != plain.tokens) return std::puts("the texts differ"), 1;
      candidates[i].log_ratio += std::log(plain.stats.seconds.total / result.stats.seconds.total);
      candidates[i].stats += result.stats;
    }
  }
  std::printf("%-12s %9s %9s %7s %9s\n", "drafter", "tokens/s", "to plain", "rounds", "accepted");
  for (const auto& [name, drafter, log_ratio, stats] : candidates) {
    std::printf("%-12s %9.1f %9.2f %7lld %8.0f%%\n", name.c_str(), stats.tokens_per_second(),
                std::exp(log_ratio / std::size(kPrompts)), static_cast<long long>(stats.rounds),
                100 * stats.acceptance_rate());
  }
}
