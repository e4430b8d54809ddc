#include "report.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>

#include "logprob_report.hpp"

namespace cli {

namespace {

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

/// Places of a draft that were ever filled.
std::size_t deepest(const fd::Stats& stats) {
  std::size_t depth = 0;
  while (depth < stats.drafted_per_position.size() && stats.drafted_per_position[depth] > 0) {
    ++depth;
  }
  return depth;
}

Json stats_to_json(const fd::Stats& stats, const RunFacts& facts) {
  const auto depth = static_cast<std::ptrdiff_t>(deepest(stats));
  const fd::Seconds& s = stats.seconds;
  const auto begin = [](const auto& values) { return values.begin(); };
  const auto per_position = [&](const auto& values) {
    return std::vector<std::int64_t>(begin(values), begin(values) + depth);
  };
  return {
      {"tokens_per_second", finite(stats.tokens_per_second())},
      {"prompt_tokens", stats.prompt_tokens},
      {"reused_tokens", stats.reused_tokens},
      {"prompt_tokens_per_second", finite(stats.prompt_tokens_per_second())},
      {"emitted", stats.emitted},
      {"rounds", stats.rounds},
      {"drafted", stats.drafted},
      {"accepted", stats.accepted},
      {"bonus", stats.bonus},
      {"corrected", stats.corrected},
      {"plain", stats.plain},
      {"acceptance_rate", finite(stats.acceptance_rate())},
      {"acceptance_length", finite(stats.acceptance_length())},
      {"drafted_per_position", per_position(stats.drafted_per_position)},
      {"accepted_per_position", per_position(stats.accepted_per_position)},
      {"seconds",
       {{"load", finite(facts.load_seconds)},
        {"prefill", finite(s.prefill)},
        {"draft", finite(s.draft)},
        {"verify", finite(s.verify)},
        {"accept", finite(s.accept)},
        {"commit", finite(s.commit)},
        {"total", finite(s.total)}}},
  };
}

}  // namespace

Json to_json(const fd::Result& result, int sample, const RunFacts& facts) {
  Json object = {
      {"seed", facts.seed + static_cast<std::uint64_t>(sample)},
      {"tokens", result.tokens},
      {"text", result.text},
      {"from_draft", result.from_draft},
      {"finish_reason", std::string(fd::name_of(result.finish_reason))},
  };
  if (facts.logprobs) object["logprobs"] = logprobs_to_json(result);
  object["stats"] = stats_to_json(result.stats, facts);
  Json& settings = object["settings"] = {
      {"speculation", facts.speculation},
      {"n_draft", facts.n_max},
      {"acceptance", facts.acceptance},
      {"n_ctx", facts.n_ctx},
      {"cache_type", facts.cache_type},
      {"threads", facts.threads},
      {"isa", facts.isa},
  };
  if (facts.draft_temperature) settings["draft_temperature"] = shortest(*facts.draft_temperature);
  const DraftArguments& draft = facts.draft_load;
  if (!draft.format.empty()) settings["quantize_draft"] = draft.format;
  if (draft.n_vocab > 0) settings["draft_vocab"] = draft.n_vocab;
  if (!draft.counts_file.empty()) settings["draft_vocab_counts"] = draft.counts_file;
  return object;
}

void Summary::add(const fd::Result& result) {
  stats_ += result.stats;
  // A prompt that several texts share is read once and counts once.
  stats_.prompt_tokens -= result.stats.reused_tokens;
  stats_.reused_tokens = 0;
  reasons_.push_back(result.finish_reason);
}

/// "stop", or "2 stop, 1 length" of several texts.
std::string Summary::ends() const {
  std::vector<std::string> names;
  for (const fd::FinishReason reason : reasons_) names.emplace_back(fd::name_of(reason));
  if (names.size() == 1) return names[0];
  std::string text;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) continue;
    const auto count = std::count(name, names.end(), *name);
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + *name;
  }
  return text;
}

std::string Summary::text(const RunFacts& facts) const {
  const fd::Stats& s = stats_;
  const auto n = [](std::int64_t count) { return static_cast<long long>(count); };
  std::string text = formatted("prompt: %lld tokens, %.1f t/s\n", n(s.prompt_tokens),
                               finite(s.prompt_tokens_per_second()));
  text += formatted("decode: %lld tokens, %.1f t/s, %lld rounds, end: %s\n", n(s.emitted),
                    finite(s.tokens_per_second()), n(s.rounds), ends().c_str());
  if (s.drafted > 0) {
    text += formatted("drafts: %s, %lld tokens, %lld accepted (%.1f %%), acceptance length %.2f\n",
                      facts.speculation.c_str(), n(s.drafted), n(s.accepted),
                      100 * s.acceptance_rate(), s.acceptance_length());
    text += "per position:";
    for (std::size_t i = 0; i < deepest(s); ++i) {
      text += formatted(" %lld/%lld", n(s.accepted_per_position[i]), n(s.drafted_per_position[i]));
    }
    text += '\n';
  }
  text += formatted(
      "seconds: load %.2f, prompt %.2f, draft %.2f, verify %.2f, accept %.2f, "
      "commit %.2f (%d threads, %s)\n",
      facts.load_seconds, s.seconds.prefill, s.seconds.draft, s.seconds.verify, s.seconds.accept,
      s.seconds.commit, facts.threads, facts.isa.c_str());
  // The first round of a text drafts nothing by design, and the last one may have no room for a
  // draft, so neither says anything about the drafter.
  if (facts.speculation != "none" && s.drafted == 0 && s.rounds > 2 * std::ssize(reasons_)) {
    text += "note: speculation (" + facts.speculation + ") stayed idle: " +
            (facts.speculation == "lookup" ? "nothing in the text repeats itself"
                                           : "the draft model's context is full") +
            ", so this ran like --spec-type none\n";
  }
  return text;
}

}  // namespace cli
