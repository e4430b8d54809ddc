// How many drafts each acceptance rule accepts on average, for a target and a draft model on the
// prompts of bench/prompts: as JSON. write_results.py runs it and makes the table.
//
// A text is sampled from the target. At every few tokens of it three chains are drafted: the draft
// model's best tokens, tokens drawn from its law, and tokens sampled with the target's noise. All
// rules judge the same drafts. `accepted` is computed from p and q of the draft (expected.hpp);
// `counted` is what the shipped rules accepted in one verification each, which checks the former.

#include <foredraft/core/index.hpp>
#include <foredraft/models.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <foredraft/io/chat_format.hpp>
#include <foredraft/version.hpp>
#include <nlohmann/json.hpp>

#include "../support/program.hpp"
#include "expected.hpp"
#include "model_path.hpp"

namespace fd = foredraft;
using Json = nlohmann::ordered_json;

namespace {

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
using Tokens = std::vector<fd::TokenId>;

struct Arguments {
  std::string target = "qwen2.5-coder-1.5b";
  std::string draft = "qwen2.5-coder-0.5b";
  std::string prompts = "bench/prompts/dev.jsonl";
  std::vector<float> temperatures{0.7f, 1.0f};
  int depth = 4;
  int n_tokens = 64;
  int stride = 4;
  int limit = 0;
  int threads = 0;
  std::uint64_t seed = 0;
};

enum Drafts {
  kArgmax,
  kDrawn,
  kCoupled,
  kDraftKinds
};

struct Method {
  const char* rule;
  const char* drafts;
};
constexpr std::array<Method, 6> kMethods{{{"match", "argmax"},
                                          {"match", "drawn"},
                                          {"match", "coupled"},
                                          {"rejection", "argmax"},
                                          {"rejection", "drawn"},
                                          {"block", "drawn"}}};

/// What one round says of one method.
struct Sample {
  bench::PerDepth reached;  // probability that so many drafts are accepted
  int counted = 0;
};
using RoundSamples = std::array<Sample, kMethods.size()>;

double sum(const bench::PerDepth& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

/// All rounds of one temperature.
class Tally {
 public:
  void begin(const std::string& prompt) { prompts_.push_back({prompt, {}}); }
  void add(RoundSamples samples) { prompts_.back().rounds.push_back(std::move(samples)); }

  Json to_json(float temperature) const {
    Json methods = Json::array();
    for (std::size_t m = 0; m < kMethods.size(); ++m) {
      const auto [accepted, error] =
          mean([m](const RoundSamples& round) { return sum(round[m].reached); });
      const auto [counted, counted_error] =
          mean([m](const RoundSamples& round) { return static_cast<double>(round[m].counted); });
      std::vector<double> reached;
      for (std::size_t i = 0; i < depth(); ++i) {
        reached.push_back(
            rounded(mean([m, i](const RoundSamples& round) { return round[m].reached[i]; }).first));
      }
      methods.push_back({{"rule", kMethods[m].rule},
                         {"drafts", kMethods[m].drafts},
                         {"accepted", rounded(accepted)},
                         {"standard_error", rounded(error)},
                         {"reached", reached},
                         {"counted", rounded(counted)},
                         {"counted_standard_error", rounded(counted_error)}});
    }
    const auto gain = [](const RoundSamples& round) {
      return sum(round[5].reached) - sum(round[4].reached);
    };
    double least = 0;
    Json prompts = Json::array();
    for (const Prompt& prompt : prompts_) {
      std::vector<double> accepted(kMethods.size());
      for (const RoundSamples& round : prompt.rounds) {
        least = std::min(least, gain(round));
        for (std::size_t m = 0; m < accepted.size(); ++m) {
          accepted[m] += sum(round[m].reached) / static_cast<double>(prompt.rounds.size());
        }
      }
      for (double& value : accepted) value = rounded(value);
      prompts.push_back(
          {{"id", prompt.id}, {"rounds", prompt.rounds.size()}, {"accepted", accepted}});
    }
    const auto [block_gain, block_error] = mean(gain);
    return {{"temperature", rounded(temperature)},
            {"rounds", rounds()},
            {"methods", methods},
            {"block_minus_rejection",
             {{"mean", rounded(block_gain)},
              {"standard_error", rounded(block_error)},
              {"least_of_a_round", rounded(least)}}},
            {"prompts", prompts}};
  }

 private:
  struct Prompt {
    std::string id;
    std::vector<RoundSamples> rounds;
  };

  static double rounded(double value) { return std::round(value * 1e5) / 1e5; }

  std::size_t rounds() const {
    std::size_t n = 0;
    for (const Prompt& prompt : prompts_) n += prompt.rounds.size();
    return n;
  }
  std::size_t depth() const {
    for (const Prompt& prompt : prompts_) {
      if (!prompt.rounds.empty()) return prompt.rounds[0][0].reached.size();
    }
    return 0;
  }

  /// Mean over rounds and its standard error. Rounds of one prompt are alike, so it is the prompts
  /// that count as independent.
  template <typename F>
  std::pair<double, double> mean(F&& value) const {
    const auto n = static_cast<double>(rounds());
    double total = 0;
    for (const Prompt& prompt : prompts_) {
      for (const RoundSamples& round : prompt.rounds) total += value(round);
    }
    const double result = total / n;
    double squares = 0;
    for (const Prompt& prompt : prompts_) {
      double off = 0;
      for (const RoundSamples& round : prompt.rounds) off += value(round) - result;
      squares += off * off;
    }
    const auto groups = static_cast<double>(prompts_.size());
    return {result, groups < 2 ? 0.0 : std::sqrt(squares * groups / (groups - 1)) / n};
  }

  std::vector<Prompt> prompts_;
};

class Measurement {
 public:
  Measurement(Model& target, Model& draft, const Arguments& a)
      : target_(target),
        decoder_(target, Cache{target.shape(), kContext},
                 fd::ModelDrafter{draft, {.sampling = fd::DraftSampling::kCoupled}, kContext},
                 fd::SampleAndMatch{}),
        cache_(target.shape(), kContext),
        draft_model_(draft, Cache{draft.shape(), kContext}),
        a_(a) {
    fd::require_same_vocabulary(target.info(), draft.info());
  }

  /// All rounds along one text. Its sequence number keeps the noise of prompts apart.
  void measure(const Tokens& prompt, float temperature, std::uint32_t sequence, Tally& tally) {
    sampling_ = {.temperature = temperature};
    // By match, the text does not depend on how it is drafted.
    decoder_.generate(prompt, {.max_tokens = a_.n_tokens,
                               .n_draft = a_.depth,
                               .sampling = {.temperature = temperature},
                               .seed = a_.seed,
                               .sequence = sequence});
    const std::span<const fd::TokenId> text = decoder_.tokens();
    const std::size_t first = prompt.size() - 1;
    cache_.restore(decoder_.cache().snapshot());
    cache_.truncate(static_cast<int>(first));
    draft_model_.restore({decoder_.drafter().cache().snapshot()});
    draft_model_.truncate(static_cast<int>(first));
    fd::Philox rng(a_.seed + 1, sequence);  // not the noise of the text
    const auto stride = fd::idx(a_.stride);
    const auto reach = fd::idx(std::max(a_.stride, a_.depth));
    for (std::size_t anchor = first; anchor + reach < text.size(); anchor += stride) {
      tokens_ = text.first(anchor + 1);
      draft_chains(rng);
      verify(text.subspan(anchor, stride));
      tally.add(judge(rng));
    }
  }

 private:
  static constexpr int kContext = 4096;

  fd::Position anchor_position() const { return static_cast<fd::Position>(tokens_.size()) - 1; }
  /// Of the token `i` of a chain in the tree of all chains.
  static fd::NodeIndex node(int kind, int i) {
    return i < 0 ? 0 : static_cast<fd::NodeIndex>(1 + i * kDraftKinds + kind);
  }

  void draft_chains(fd::Rng& rng) {
    draft_model_.begin(tokens_);
    tree_.reset(tokens_.back());
    for (auto& chain : chains_) chain = {};
    for (int i = 0; i < a_.depth; ++i) {
      draft_model_.forward(tree_, {fd::RowNeed::kLogits, {}});
      for (int kind = 0; kind < kDraftKinds; ++kind) {
        const fd::NodeIndex parent = node(kind, i - 1);
        const auto logits = draft_model_.scores().logits(draft_model_.row(parent));
        bench::Chain& chain = chains_[fd::idx(kind)];
        if (kind == kArgmax) {
          chain.tokens.push_back(fd::Scores::argmax_of(logits));
        } else {
          fd::Law q;
          transforms_.apply(sampling_, logits, {}, q);
          const fd::RngKey key =
              kind == kDrawn ? fd::RngKey{fd::Purpose::kDraft, anchor_position(), i + 1}
                             : fd::RngKey{fd::Purpose::kTargetSample, anchor_position() + i + 1, 0};
          chain.tokens.push_back(q.ids[rng.categorical(key, q.ids, q.p)]);
          chain.q.push_back(std::move(q));
        }
        tree_.add(parent, chain.tokens.back());
      }
    }
  }

  /// One pass for the target's rows of all chains; with them come the tokens of the text up to the
  /// next round, which are kept.
  void verify(std::span<const fd::TokenId> text) {
    auto nodes = fd::chain_of(text, 0, static_cast<int>(text.size()));
    const int n_text = static_cast<int>(nodes.size());
    for (const fd::Node& drafted : tree_.nodes().subspan(1)) {
      nodes.push_back({drafted.token, drafted.parent == 0 ? 0 : drafted.parent - 1 + n_text});
    }
    cache_.stage(nodes);
    std::vector<fd::Request<Cache>> requests{
        {&cache_, 0, 1, {fd::RowNeed::kLogits, {}}, &anchor_scores_}};
    if (n_text > 1) {
      requests.push_back({&cache_, 1, n_text - 1, {fd::RowNeed::kNothing, {}}, &no_scores_});
    }
    requests.push_back({&cache_, n_text, tree_.drafted(), {fd::RowNeed::kLogits, {}}, &scores_});
    target_.forward(std::span(requests));
    cache_.commit(fd::first_nodes(n_text));
    cache_.discard();
  }

  RoundSamples judge(fd::Rng& rng) {
    std::array<int, kMethods.size()> counted{};
    for (int kind = 0; kind < kDraftKinds; ++kind) {
      bench::Chain& chain = chains_[fd::idx(kind)];
      chain_draft_.reset(tokens_.back());
      rows_.reset({fd::RowNeed::kLogits, {}}, a_.depth + 1, target_.vocab_size());
      rows_.set_row(0, std::as_const(anchor_scores_).logits(0));
      for (int i = 0; i < a_.depth; ++i) {
        if (kind == kDrawn) chain_draft_.drawn_from(i) = chain.q[fd::idx(i)];
        chain_draft_.extend(chain.tokens[fd::idx(i)]);
        rows_.set_row(i + 1, std::as_const(scores_).logits(node(kind, i) - 1));
      }
      sampler_.begin(sampling_, rows_, chain_draft_, tokens_);
      for (int i = 0; i < a_.depth; ++i) chain.p.push_back(sampler_.law(i));
      const auto count = [&](const auto& rule) {
        return rule.verify(chain_draft_, sampler_, rng).accepted();
      };
      switch (kind) {
        case kArgmax:
          counted[0] = count(fd::SampleAndMatch{});
          counted[3] = count(fd::RejectionSampling{});
          break;
        case kDrawn:
          counted[1] = count(fd::SampleAndMatch{});
          counted[4] = count(fd::RejectionSampling{});
          counted[5] = count(fd::BlockVerification{});
          break;
        default: counted[2] = count(fd::SampleAndMatch{});
      }
    }
    const bench::PerDepth argmax = bench::point_mass(chains_[kArgmax]);
    return {{{argmax, counted[0]},
             {bench::match_drawn(chains_[kDrawn]), counted[1]},
             {bench::match_coupled(chains_[kDrawn]), counted[2]},
             {argmax, counted[3]},
             {bench::rejection_drawn(chains_[kDrawn]), counted[4]},
             {bench::block_drawn(chains_[kDrawn]), counted[5]}}};
  }

  Model& target_;
  fd::Decoder<Model, Cache, fd::ModelDrafter<Model>, fd::SampleAndMatch> decoder_;
  Cache cache_;
  fd::DraftModel<Model, Cache> draft_model_;
  Arguments a_;
  fd::SamplingOptions sampling_;
  std::span<const fd::TokenId> tokens_;  // final ones; the last is the anchor
  fd::DraftTree tree_;                   // all chains
  std::array<bench::Chain, kDraftKinds> chains_;
  fd::Transforms transforms_;
  fd::Scores anchor_scores_, no_scores_, scores_;
  fd::DraftTree chain_draft_;  // one chain, as a rule sees it ...
  fd::Scores rows_;            // ... with its rows
  fd::RowSampler sampler_;
};

Tokens encode(const fd::Tokenizer& tokenizer, const std::string& prompt) {
  const fd::ChatMessage message{"user", prompt};
  const auto chat = fd::recognize_chat_template(tokenizer.vocabulary().chat_template());
  return tokenizer.encode(fd::format_chat(chat, {&message, 1}),
                          {.add_bos = true, .parse_special = true});
}

/// Of a model: the file without its folder and ending. Names have dots of their own.
std::string name_of(const std::string& model) {
  const std::filesystem::path path(model);
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

const std::string kVersion = std::to_string(FOREDRAFT_VERSION_MAJOR) + "." +
                             std::to_string(FOREDRAFT_VERSION_MINOR) + "." +
                             std::to_string(FOREDRAFT_VERSION_PATCH);

int run(const Arguments& a) {
  fd::Cpu cpu{{.threads = a.threads}};
  Model target = fd::load(cpu, cli::find_model(a.target));
  Model draft = fd::load(cpu, cli::find_model(a.draft));
  Measurement measurement(target, draft, a);
  std::ifstream file(a.prompts);
  if (!file) throw fd::Error(fd::ErrorCode::kIo, "no file " + a.prompts, "lines of JSON", "");
  std::vector<Tally> tallies(a.temperatures.size());
  std::uint32_t n = 0;
  for (std::string line;
       (a.limit == 0 || n < static_cast<std::uint32_t>(a.limit)) && std::getline(file, line); ++n) {
    const Json prompt = Json::parse(line);
    const Tokens tokens = encode(target.tokenizer(), prompt.at("prompt").get<std::string>());
    for (std::size_t t = 0; t < tallies.size(); ++t) {
      tallies[t].begin(prompt.at("id").get<std::string>());
      measurement.measure(tokens, a.temperatures[t], n, tallies[t]);
    }
    std::cerr << prompt.at("id") << ", " << tokens.size() << " tokens" << std::endl;
  }
  Json results = Json::array();
  for (std::size_t t = 0; t < tallies.size(); ++t)
    results.push_back(tallies[t].to_json(a.temperatures[t]));
  const Json out = {
      {"target", name_of(a.target)},
      {"draft", name_of(a.draft)},
      {"settings",
       {{"depth", a.depth},
        {"tokens_per_text", a.n_tokens},
        {"tokens_between_rounds", a.stride},
        {"prompts", a.prompts},
        {"n_prompts", n},
        {"seed", a.seed}}},
      {"machine",
       {{"threads", cpu.threads()},
        {"isa", std::string(fd::cpu::name_of(cpu.isa()))},
        {"foredraft", kVersion}}},
      {"results", results},
  };
  std::cout << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Expected acceptance of every rule, for a target and a draft model.");
  app.add_option("-m,--model", a.target, "target: a file, or a name")->capture_default_str();
  app.add_option("--draft", a.draft, "draft model")->capture_default_str();
  app.add_option("--prompts", a.prompts, "lines of JSON with id and prompt")->capture_default_str();
  app.add_option("--temp", a.temperatures, "temperatures")->delimiter(',')->capture_default_str();
  app.add_option("--depth", a.depth, "drafted tokens")
      ->check(CLI::Range(1, 20))
      ->capture_default_str();
  app.add_option("-n", a.n_tokens, "tokens of each text")
      ->check(CLI::Range(1, 2048))
      ->capture_default_str();
  app.add_option("--stride", a.stride, "tokens from one round to the next")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--limit", a.limit, "prompts; 0: all")->capture_default_str();
  app.add_option("-t,--threads", a.threads, "0: as many as the machine grants")
      ->capture_default_str();
  app.add_option("--seed", a.seed, "of text and drafts")->capture_default_str();
  return bench::run_program(app, argc, argv, [&] { return run(a); });
}
