#include <foredraft/trace/trace_writer.hpp>

#include <foredraft/foredraft.hpp>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{0, 1};

/// Proposes two tokens with all that can be said of a draft: one drawn, one sure, two origins.
struct TalkativeDrafter : fd::NoDraft {
  static constexpr fd::Proposal proposal = fd::Proposal::kLaw;
  static constexpr bool controls = true;  // so that nobody wraps it
  int max_depth() const noexcept { return 2; }
  void propose(const fd::Context&, fd::Limit limit, fd::DraftTree& draft) const {
    if (limit.depth < 2) return;
    draft.drawn_from(0) = {{1, 2}, {0.25, 0.75}};
    draft.extend(2);
    draft.set_confidence(draft.extend(3), 0.5f);
    draft.set_origin(2, 1);
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The text with every number of a time replaced.
std::string without_times(std::string line) {
  for (const char* key : {"\"time\":", "\"prefill\":", "\"draft\":", "\"verify\":", "\"accept\":",
                          "\"commit\":", "\"total\":"}) {
    const std::size_t at = line.find(key);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + std::string(key).size();
    line.replace(begin, line.find_first_of(",}", begin) - begin, "T");
  }
  return line;
}

std::vector<std::string> trace_of(const fd::Options& asked, fd::TraceWriter::Piece piece,
                                  std::vector<std::string> names) {
  std::ostringstream out;
  fd::TraceWriter trace(out, std::move(piece), std::move(names));
  toy::Target target(8, 1);
  fd::Decoder decoder{target, toy::TokenCache{}, TalkativeDrafter{}, fd::RejectionSampling{}};
  fd::Options options = asked;
  options.observer = std::ref(trace);
  trace.begin(kPrompt, options);
  trace.end(decoder.generate(kPrompt, options));
  std::vector<std::string> lines = lines_of(out.str());
  for (std::string& line : lines) line = without_times(line);
  return lines;
}

}  // namespace

TEST_CASE("a trace begins with the text, has a line a round and ends with the reason") {
  const auto lines = trace_of({.max_tokens = 6, .n_draft = 2}, {}, {});
  REQUIRE(lines.size() >= 4);
  CHECK(
      lines.front() ==
      R"({"type":"text","seed":0,"temperature":0,"n_draft":2,"n_nodes":-1,"prompt":[{"id":0},{"id":1}]})");
  // The first round behind a prompt drafts nothing.
  CHECK(lines[1].starts_with(
      R"({"type":"round","round":0,"position":1,"time":T,"seconds":{"prefill":T,"draft":T,)"));
  CHECK(lines.back().starts_with(R"({"type":"end","time":T,"finish_reason":"length")"));
}

TEST_CASE("of a node it says who drafted it, how sure, from which q, and what the target thought") {
  const auto piece = [](fd::TokenId token) { return std::string(1, "\"\\\xFFnopqr"[token]); };
  const fd::Options options{.max_tokens = 90, .n_draft = 2, .sampling = {.temperature = 1}};
  const auto lines = trace_of(options, piece, {"first"});
  CHECK(lines.front().ends_with(R"([{"id":0,"text":"\""},{"id":1,"text":"\\"}]})"));
  const std::string first =
      "{\"id\":2,\"text\":\"\uFFFD\",\"parent\":0,\"drafter\":\"first\",\"q\":0.75,\"p\":";
  const std::string second = R"({"id":3,"text":"n","parent":1,"drafter":"2","confidence":0.5)";
  int accepted = 0;
  int rejected = 0;
  for (const std::string& line : lines) {
    if (line.find("\"nodes\":[{") == std::string::npos) continue;
    CHECK(line.find(first) != std::string::npos);
    const std::size_t at = line.find(second);
    REQUIRE(at != std::string::npos);
    // What the target thought behind a rejected token decided nothing.
    const bool kept = line.substr(0, at).ends_with("\"accepted\":true},");
    CHECK((line.compare(at + second.size(), 5, ",\"p\":") == 0) == kept);
    ++(kept ? accepted : rejected);
  }
  CHECK(accepted > 0);
  CHECK(rejected > 0);
}
