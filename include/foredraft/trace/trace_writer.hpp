#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/round_event.hpp>
#include <foredraft/sampling/row_sampler.hpp>
#include <foredraft/trace/json_line.hpp>

namespace foredraft::inline v0 {

/// Writes what a decoder does as NDJSON, one object a line: `text` where a text begins, `round` for
/// every round, `end` behind the last one. docs/reference/trace.md has the keys.
///
///   fd::TraceWriter trace(file);
///   options.observer = std::ref(trace);
///   trace.begin(prompt, options);
///   trace.end(decoder.generate(prompt, options));
///
/// The stream is the caller's, its errors too. One writer is used by one decoder at a time.
/// @cost some microseconds a round; above temperature 0 also the probabilities of the tokens on the
/// accepted path and of those beside it
class TraceWriter {
 public:
  using Piece = std::function<std::string(TokenId)>;

  /// @param piece bytes of a token; empty: tokens have ids alone
  /// @param drafters names by origin of a node; without them drafters are numbered
  explicit TraceWriter(std::ostream& out, Piece piece = {}, std::vector<std::string> drafters = {})
      : out_(out), piece_(std::move(piece)), drafters_(std::move(drafters)) {}

  /// A text begins; times count from here.
  void begin(std::span<const TokenId> prompt, const Options& options) {
    begin_ = Clock::now();
    line_.begin_object().member("type", "text");
    line_.member("seed", options.seed).member("temperature", options.sampling.temperature);
    line_.member("n_draft", options.n_draft).member("n_nodes", options.n_nodes);
    line_.key("prompt").begin_array();
    for (const TokenId token : prompt) write_token(token).end_object();
    line_.end_array();
    finish_line();
  }

  void operator()(const RoundEvent& event) {
    line_.begin_object().member("type", "round").member("round", event.number);
    line_.member("position", event.anchor_position).member("time", seconds_since_begin());
    write_seconds(event.seconds);
    line_.key("nodes").begin_array();
    for (NodeIndex node = 1; node < event.draft.size(); ++node) write_node(event, node);
    line_.end_array().key("emitted").begin_array();
    for (const Emitted& emitted : event.emitted) {
      line_.begin_object().member("id", emitted.token).member("text", emitted.text);
      line_.member("from_draft", emitted.from_draft).end_object();
    }
    line_.end_array();
    finish_line();
  }

  void end(const Result& result) {
    line_.begin_object().member("type", "end").member("time", seconds_since_begin());
    line_.member("finish_reason", name_of(result.finish_reason));
    write_seconds(result.stats.seconds);
    line_.member("speculation", result.speculation);
    finish_line();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// An object of the token that is left open.
  JsonLine& write_token(TokenId token) {
    line_.begin_object().member("id", token);
    return piece_ ? line_.member("text", piece_(token)) : line_;
  }

  void write_node(const RoundEvent& event, NodeIndex node) {
    const DraftTree& draft = event.draft;
    const NodeIndex parent = draft.parent(node);
    const TokenId token = draft.token(node);
    const auto origin = idx(draft.origin(node));
    write_token(token).member("parent", parent);
    if (origin < drafters_.size()) {
      line_.member("drafter", drafters_[origin]);
    } else {
      line_.member("drafter", std::to_string(origin + 1));
    }
    if (draft.confidence(node) >= 0) line_.member("confidence", draft.confidence(node));
    if (draft.siblings(parent) != Siblings::kPointMass) {
      line_.member("q", draft.law(parent)(token));
    }
    // What would have followed a rejected token decided nothing.
    if (on_path(event, parent) && !event.rows.options().greedy()) {
      line_.member("p", event.rows.probability(parent, token));
    }
    line_.member("accepted", on_path(event, node)).end_object();
  }

  static bool on_path(const RoundEvent& event, NodeIndex node) noexcept {
    return std::find(event.path.begin(), event.path.end(), node) != event.path.end();
  }

  void write_seconds(const Seconds& seconds) {
    line_.key("seconds").begin_object();
    line_.member("prefill", seconds.prefill).member("draft", seconds.draft);
    line_.member("verify", seconds.verify).member("accept", seconds.accept);
    line_.member("commit", seconds.commit).member("total", seconds.total).end_object();
  }

  double seconds_since_begin() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  void finish_line() {
    line_.end_object();
    out_ << line_.text() << '\n';
    line_.clear();
  }

  std::ostream& out_;
  Piece piece_;
  std::vector<std::string> drafters_;
  Clock::time_point begin_ = Clock::now();
  JsonLine line_;
};

}  // namespace foredraft::inline v0
