#include "report.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <sstream>

#include "draft.hpp"
#include "logprob_report.hpp"

namespace cli {

namespace {

/// Places of a draft that were ever filled.
std::size_t deepest(const fd::Stats& stats) {
  std::size_t depth = 0;
  while (depth < stats.drafted_per_position.size() && stats.drafted_per_position[depth] > 0) {
    ++depth;
  }
  return depth;
}

Json stats_to_json(const fd::Stats& stats) {
  const auto depth = static_cast<std::ptrdiff_t>(deepest(stats));
  const fd::Seconds& s = stats.seconds;
  const auto per_position = [&](const auto& values) {
    return std::vector<std::int64_t>(values.begin(), values.begin() + depth);
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
       {{"prefill", finite(s.prefill)},
        {"draft", finite(s.draft)},
        {"verify", finite(s.verify)},
        {"accept", finite(s.accept)},
        {"commit", finite(s.commit)},
        {"total", finite(s.total)}}},
  };
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string indented(const std::string& text) {
  std::string result;
  for (const std::string& line : lines_of(text)) result += "  " + line + "\n";
  return result;
}

/// Null where it drafts; and where it has not been found out whether drafts pay.
Json reason_of(fd::DrafterReport::Parked parked) {
  using Parked = fd::DrafterReport::Parked;
  switch (parked) {
    case Parked::kNot: break;
    case Parked::kDrafting: return "drafting";
    case Parked::kRisk: return "risk";
    case Parked::kReading: return "reading";
    case Parked::kAsking: return "asking";
    case Parked::kFailing: return "failing";
  }
  return {};
}

/// What the lines for people say, for scripts.
Json reports_to_json(Session& session) {
  Json all = Json::object();
  const std::vector<std::string> names = session.drafter_names();
  const std::vector<fd::DrafterReport> reports = session.reports();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const fd::DrafterReport& report = reports[i];
    Json& object = all[names[i]];
    object = {{"asked", report.asked},       {"seconds", finite(report.seconds)},
              {"verified", report.verified}, {"accepted", report.accepted},
              {"failures", report.failures}, {"parked", reason_of(report.parked)}};
    if (report.parked == fd::DrafterReport::Parked::kDrafting)
      object["ratio"] = finite(report.ratio);
  }
  return all;
}

}  // namespace

Json to_json(const fd::Result& result) {
  Json object = {
      {"tokens", result.tokens},
      {"text", result.text},
      {"from_draft", result.from_draft},
      {"finish_reason", std::string(fd::name_of(result.finish_reason))},
  };
  object["stats"] = stats_to_json(result.stats);
  return object;
}

Json to_json(const fd::Result& result, std::uint64_t seed, const RunFacts& facts,
             Session& session) {
  const auto& [asked, method, models] = facts;
  Json object{{"seed", seed}};
  object.update(to_json(result));
  if (asked.options.logprobs >= 0) object["logprobs"] = logprobs_to_json(result);
  object["stats"]["seconds"]["load"] = finite(models.load_seconds);
  object["stats"]["drafters"] = lines_of(result.speculation);
  object["stats"]["by_drafter"] = reports_to_json(session);
  Json& settings = object["settings"] = {
      {"speculation", method.speculation},
      {"n_draft", asked.options.n_draft},
      {"n_nodes", asked.options.n_nodes},
      {"acceptance", method.rule.name},
      {"n_ctx", method.n_ctx},
      {"cache_type_k", std::string(fd::name_of(method.cache.k))},
      {"cache_type_v", std::string(fd::name_of(method.cache.v))},
      {"threads", models.cpu.threads()},
      {"isa", models.isa()},
  };
  if (models.draft) {
    settings["cache_type_k_draft"] = std::string(fd::name_of(method.draft_cache.k));
    settings["cache_type_v_draft"] = std::string(fd::name_of(method.draft_cache.v));
    if (models.draft->on_gpu()) settings["isa_draft"] = models.draft->arithmetic();
  }
  // Only where given: whoever reads the object can tell what was asked for from what is usual.
  if (asked.draft_temperature) settings["draft_temperature"] = shortest(*asked.draft_temperature);
  if (asked.lookup_min) settings["lookup_min"] = *asked.lookup_min;
  if (asked.ngram_sizes.n) settings["ngram_size_n"] = *asked.ngram_sizes.n;
  if (asked.ngram_sizes.m) settings["ngram_size_m"] = *asked.ngram_sizes.m;
  if (asked.ngram_sizes.hits) settings["ngram_min_hits"] = *asked.ngram_sizes.hits;
  const DraftArguments& draft = asked.draft_load;
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
  speculation_ = result.speculation;
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
  // What %lld wants: std::int64_t may be another type.
  const auto n = [](std::int64_t count) { return static_cast<long long>(count); };
  std::string text = formatted("prompt: %lld tokens, %.1f t/s\n", n(s.prompt_tokens),
                               finite(s.prompt_tokens_per_second()));
  text += formatted("decode: %lld tokens, %.1f t/s, %lld rounds, end: %s\n", n(s.emitted),
                    finite(s.tokens_per_second()), n(s.rounds), ends().c_str());
  if (s.drafted > 0) {
    text += formatted("drafts: %s, %lld tokens, %lld accepted (%.1f %%), acceptance length %.2f\n",
                      facts.method.speculation.c_str(), n(s.drafted), n(s.accepted),
                      100 * s.acceptance_rate(), s.acceptance_length());
    text += "per position:";
    for (std::size_t i = 0; i < deepest(s); ++i) {
      text += formatted(" %lld/%lld", n(s.accepted_per_position[i]), n(s.drafted_per_position[i]));
    }
    text += '\n';
  }
  text += indented(speculation_);
  text += formatted(
      "seconds: load %.2f, prompt %.2f, draft %.2f, verify %.2f, accept %.2f, "
      "commit %.2f (%d threads, %s)\n",
      facts.models.load_seconds, s.seconds.prefill, s.seconds.draft, s.seconds.verify,
      s.seconds.accept, s.seconds.commit, facts.models.cpu.threads(), facts.models.isa().c_str());
  return text;
}

}  // namespace cli
