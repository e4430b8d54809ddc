// What a format of keys and values costs: perplexity and memory of a model with caches in several
// pairs of formats, and how many of a draft model's tokens are accepted when its cache has them.
//
//   bench.cache_formats -m qwen2.5-coder-0.5b -f bench/data/text.txt
//   bench.cache_formats -m qwen2.5-coder-1.5b --model-draft qwen2.5-coder-0.5b
//     --prompts bench/prompts/dev.jsonl
//
// Nothing here depends on how quick the machine is. The result is one JSON object.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/core/index.hpp>
#include <foredraft/models.hpp>

#include "../perplexity/losses.hpp"
#include "../support/program.hpp"
#include "model_path.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;
using Cache = fd::LinearCache<fd::cpu::AnyRows>;
using Model = fd::Model<fd::Cpu>;
using Tokens = std::vector<fd::TokenId>;

constexpr fd::RowFormat kF32 = fd::RowFormat::kF32;
constexpr fd::RowFormat kF16 = fd::RowFormat::kF16;
constexpr fd::RowFormat kQ8 = fd::RowFormat::kQ8_0;
/// The default first: the others are compared with it.
constexpr fd::RowFormats kPairs[] = {
    {kF16, kF16}, {kF32, kF32}, {kF16, kQ8}, {kQ8, kF16}, {kQ8, kQ8}};

fd::CacheShape with_formats(const Model& model, fd::RowFormats formats) {
  fd::CacheShape shape = model.shape();
  shape.formats = formats;
  return shape;
}

Json named(fd::RowFormats formats) {
  return {{"k", fd::name_of(formats.k)}, {"v", fd::name_of(formats.v)}};
}

struct Arguments {
  std::string model;
  std::string draft;
  std::string text;
  std::string prompts;
  int tokens = 4096;
  int window = 1024;
  int each = 1;
  int n = 64;
  int depth = 4;
  int threads = 0;
};

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) throw fd::Error(fd::ErrorCode::kIo, "no text in " + file, "a file with text");
  return text;
}

/// Perplexity with each pair, and bytes that a position takes in all layers.
Json perplexities(Model& model, const Arguments& a) {
  Tokens tokens = model.tokenizer().encode(contents(a.text));
  tokens.resize(std::min(tokens.size(), fd::idx(a.tokens)));
  Json rows = Json::array();
  std::vector<double> base;
  for (const fd::RowFormats formats : kPairs) {
    const fd::CacheShape shape = with_formats(model, formats);
    const std::string name =
        std::string(fd::name_of(formats.k)) + "/" + std::string(fd::name_of(formats.v));
    const auto found = bench::losses(model, Cache(shape, a.window + 1, bench::kLossBlock), tokens,
                                     a.window, name.c_str());
    if (base.empty()) base = found;
    Json row = named(formats);
    row["bytes_per_position"] = fd::cpu::AnyRows::bytes(shape, 1);
    row.update(bench::compare(found, base));  // "exact" is the first pair
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The first `each` prompts of every group.
std::vector<std::string> prompts_of(const Arguments& a) {
  std::ifstream in(a.prompts);
  std::map<std::string, int> seen;
  std::vector<std::string> prompts;
  for (std::string line; std::getline(in, line);) {
    const Json prompt = Json::parse(line);
    if (++seen[prompt["group"]] <= a.each) prompts.push_back(prompt["prompt"]);
  }
  if (prompts.empty()) throw fd::Error(fd::ErrorCode::kIo, "no prompt in " + a.prompts, "prompts");
  return prompts;
}

/// What a target accepts of a draft model whose cache has each pair. The target's is in f16.
Json acceptance(Model& target, Model& draft, const Arguments& a) {
  const auto prompts = prompts_of(a);
  std::vector<Tokens> texts;
  Json rows = Json::array();
  for (const fd::RowFormats formats : kPairs) {
    constexpr int kContext = 4096;
    using Drafter = fd::ModelDrafter<Model, Cache>;
    fd::Decoder decoder{target, Cache(target.shape(), kContext),
                        Drafter(draft, Cache(with_formats(draft, formats), kContext), {}),
                        fd::Greedy{}};
    fd::Stats sum;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Tokens prompt = target.tokenizer().encode(prompts[i]);
      const fd::Result result =
          decoder.generate(prompt, {.max_tokens = a.n, .n_draft = a.depth, .ignore_end = true});
      sum.rounds += result.stats.rounds;
      sum.drafted += result.stats.drafted;
      sum.accepted += result.stats.accepted;
      if (texts.size() <= i) texts.push_back(result.tokens);
      if (texts[i] == result.tokens) continue;
      throw fd::Error(fd::ErrorCode::kInvalidDraft, "a text that depends on the draft's cache",
                      "one text");
    }
    std::fprintf(stderr, "%s/%s\n", fd::name_of(formats.k).data(), fd::name_of(formats.v).data());
    Json row = named(formats);
    row.update({{"rounds", sum.rounds}, {"drafted", sum.drafted}, {"accepted", sum.accepted}});
    rows.push_back(std::move(row));
  }
  return {{"prompts", prompts.size()}, {"tokens", a.n}, {"depth", a.depth}, {"formats", rows}};
}

int run(const Arguments& a) {
  fd::Cpu cpu{{.threads = a.threads}};
  const auto path = cli::find_model(a.model);
  Json out{{"model", path.stem().string()},
           {"isa", fd::cpu::name_of(cpu.isa())},
           {"threads", cpu.threads()}};
  Model model = fd::load(cpu, path);
  if (!a.text.empty()) {
    out["text"] = std::filesystem::path(a.text).filename().string();
    out["window"] = a.window;
    out["formats"] = perplexities(model, a);
  }
  if (!a.draft.empty()) {
    const auto draft_path = cli::find_model(a.draft);
    Model draft = fd::load(cpu, draft_path);
    out["draft"] = draft_path.stem().string();
    out["acceptance"] = acceptance(model, draft, a);
  }
  std::cout << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Perplexity, memory and acceptance with caches in several formats, as JSON.");
  app.add_option("-m,--model", a.model, "a file, or a name")->required();
  app.add_option("-f,--text", a.text, "a text file, for perplexity");
  app.add_option("-n,--tokens", a.tokens, "tokens of the text at most")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  app.add_option("--window", a.window, "tokens of a window")
      ->check(CLI::Range(16, 4000))
      ->capture_default_str();
  auto* draft = app.add_option("--model-draft", a.draft, "a draft model, for acceptance");
  auto* prompts = app.add_option("--prompts", a.prompts, "prompts, one JSON object a line");
  draft->needs(prompts);
  prompts->needs(draft);
  app.add_option("--each", a.each, "prompts of each group")->capture_default_str();
  app.add_option("--text-tokens", a.n, "tokens of each answer")->capture_default_str();
  app.add_option("--depth", a.depth, "tokens of a draft")->capture_default_str();
  app.add_option("-t,--threads", a.threads, "0: as many as the machine grants");
  return bench::run_program(app, argc, argv, [&] { return run(a); });
}
