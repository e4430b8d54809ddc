#include "trace_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "arguments.hpp"
#include "report_page.hpp"

namespace cli {

namespace {

[[noreturn]] void corrupt(const std::string& name, std::size_t line, const std::string& what) {
  throw fd::Error(fd::ErrorCode::kCorruptFile,
                  name + ", line " + std::to_string(line) + ": " + what,
                  "a trace as --trace writes it", "write it anew");
}

/// Throws Json::exception where a key is absent or of another type.
void check_token(const Json& token) {
  token.at("id").get<std::int64_t>();
  if (token.contains("text")) token.at("text").get_ref<const std::string&>();
}

void check_seconds(const Json& seconds) {
  for (const char* part : {"prefill", "draft", "verify", "accept", "commit", "total"}) {
    seconds.at(part).get<double>();
  }
}

void check_text(const Json& text) {
  text.at("seed").get<std::uint64_t>();
  text.at("temperature").get<double>();
  text.at("n_draft").get<int>();
  for (const Json& token : text.at("prompt")) check_token(token);
}

void check_round(const Json& round) {
  round.at("round").get<std::int64_t>();
  round.at("time").get<double>();
  check_seconds(round.at("seconds"));
  std::int64_t nodes = 1;
  std::int64_t accepted = 0;
  for (const Json& node : round.at("nodes")) {
    check_token(node);
    const auto parent = node.at("parent").get<std::int64_t>();
    // From 1; 0 is the anchor.
    if (parent < 0 || parent >= nodes++) throw std::out_of_range("a node before its parent");
    node.at("drafter").get_ref<const std::string&>();
    for (const char* key : {"confidence", "q", "p"}) {
      if (node.contains(key)) node.at(key).get<double>();
    }
    accepted += node.at("accepted").get<bool>() ? 1 : 0;
  }
  for (const Json& token : round.at("emitted")) {
    check_token(token);
    // check_token() takes a token without text, as prompts may have them; what is emitted has one.
    token.at("text");
    accepted -= token.at("from_draft").get<bool>() ? 1 : 0;
  }
  // The page finds the node of an emitted token by counting both.
  if (accepted != 0) throw std::out_of_range("accepted nodes that are not those of the text");
}

void check_end(const Json& end) {
  end.at("finish_reason").get_ref<const std::string&>();
  end.at("speculation").get_ref<const std::string&>();
  check_seconds(end.at("seconds"));
}

void take(std::vector<Json>& texts, Json line) {
  const std::string type = line.at("type").get<std::string>();
  if (type == "text") {
    check_text(line);
    line["rounds"] = Json::array();
    texts.push_back(std::move(line));
    return;
  }
  if (type != "round" && type != "end") return;  // of a later version
  if (texts.empty() || texts.back().contains("end")) {
    throw std::out_of_range("\"" + type + "\" outside of a text");
  }
  if (type == "round") {
    check_round(line);
    texts.back()["rounds"].push_back(std::move(line));
  } else {
    check_end(line);
    texts.back()["end"] = std::move(line);
  }
}

// Rows of a text in chrome_trace(), from the top down; tid is the place here, from 1.
constexpr std::array kRows = {"round", "draft", "verify", "accept", "commit"};
constexpr double kMicro = 1e6;  // times of the format are microseconds

Json event(const char* phase, const std::string& name, std::size_t process, std::size_t row) {
  return {{"ph", phase}, {"name", name}, {"pid", process}, {"tid", row + 1}};
}

/// What is called `of` a process or a row.
Json naming(const char* of, std::size_t process, std::size_t row, const std::string& name) {
  Json names = event("M", of, process, row);
  names["args"]["name"] = name;
  return names;
}

Json slice(const std::string& name, std::size_t process, std::size_t row, double begin,
           double seconds) {
  Json slice = event("X", name, process, row);
  slice["ts"] = kMicro * begin;
  slice["dur"] = kMicro * std::max(seconds, 0.0);
  return slice;
}

Json counter(const std::string& name, std::size_t process, double begin, std::int64_t value) {
  Json counter = event("C", name, process, 0);
  counter["ts"] = kMicro * begin;
  counter["args"][name] = value;
  return counter;
}

/// How deep a draft was, and how many of its tokens were accepted.
std::pair<std::int64_t, std::int64_t> depth_and_accepted(const Json& nodes) {
  // Parents come first: check_round() has seen to it.
  std::vector<std::int64_t> depths{0};
  std::int64_t accepted = 0;
  for (const Json& node : nodes) {
    depths.push_back(depths[node["parent"].get<std::size_t>()] + 1);
    accepted += node["accepted"].get<bool>() ? 1 : 0;
  }
  return {*std::max_element(depths.begin(), depths.end()), accepted};
}

/// What a round did, for whoever clicks on it.
Json about(const Json& round) {
  std::string text;
  for (const Json& token : round["emitted"]) text += token["text"].get_ref<const std::string&>();
  return {{"round", round["round"]},
          {"drafted", round["nodes"].size()},
          {"emitted", round["emitted"].size()},
          {"text", text}};
}

}  // namespace

TraceFile::TraceFile(std::string name) : name_(std::move(name)) {
  if (name_.empty()) return;
  errno = 0;
  out_.open(name_, std::ios::binary);
  if (out_) return;
  throw fd::Error(fd::ErrorCode::kIo, name_ + ": " + std::strerror(errno),
                  "a file that can be written", "name another");
}

void TraceFile::describe(const fd::Tokenizer& tokenizer, std::vector<std::string> drafters) {
  if (name_.empty()) return;
  const auto piece = [&tokenizer](fd::TokenId token) {
    return std::string(tokenizer.piece(token, true));
  };
  writer_.emplace(out_, piece, std::move(drafters));
}

void TraceFile::begin(std::span<const fd::TokenId> prompt, fd::Options& options) {
  if (!writer_) return;
  options.observer = std::ref(*writer_);
  writer_->begin(prompt, options);
}

void TraceFile::end(const fd::Result& result) {
  if (!writer_) return;
  writer_->end(result);
  if (out_.flush()) return;
  throw fd::Error(fd::ErrorCode::kIo, name_ + ": cannot be written to the end",
                  "room for the trace", "is the disk full?");
}

std::vector<Json> read_trace(const std::string& name) {
  const std::string content = read_text_file(name);
  std::vector<Json> texts;
  std::size_t number = 1;
  for (std::size_t begin = 0;; ++number) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) break;
    try {
      take(texts, Json::parse(content.begin() + static_cast<std::ptrdiff_t>(begin),
                              content.begin() + static_cast<std::ptrdiff_t>(end)));
    } catch (const Json::exception& error) {
      corrupt(name, number, error.what());
    } catch (const std::out_of_range& error) {
      corrupt(name, number, error.what());
    }
    begin = end + 1;
  }
  if (texts.empty()) corrupt(name, number, "no text begins");
  return texts;
}

Json chrome_trace(const std::vector<Json>& texts) {
  Json events = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Json& text = texts[i];
    events.push_back(naming("process_name", i, 0, "text " + std::to_string(i + 1)));
    for (std::size_t row = 0; row < kRows.size(); ++row) {
      events.push_back(naming("thread_name", i, row, kRows[row]));
    }
    if (text.contains("end")) {
      events.push_back(slice("prompt", i, 0, 0, text["end"]["seconds"]["prefill"]));
    }
    for (const Json& round : text["rounds"]) {
      const Json& seconds = round["seconds"];
      double begin = round["time"].get<double>() - seconds["total"].get<double>();
      Json whole = slice("round", i, 0, begin, seconds["total"]);
      whole["args"] = about(round);
      events.push_back(std::move(whole));
      const auto [depth, accepted] = depth_and_accepted(round["nodes"]);
      events.push_back(counter("depth", i, begin, depth));
      events.push_back(counter("accepted", i, begin, accepted));
      // Only their lengths are known: the steps of a round follow each other as in kRows.
      for (std::size_t row = 1; row < kRows.size(); ++row) {
        const double length = seconds[kRows[row]];
        if (length > 0) events.push_back(slice(kRows[row], i, row, begin, length));
        begin += length;
      }
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

std::string report_page(const std::vector<Json>& texts) {
  std::string data = Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace);
  // Nothing in a text may end the element that it stands in.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) {
    data.replace(at, 1, "\\u003c");
  }
  std::string page(kReportPage);
  return page.replace(page.find(kReportPlace), kReportPlace.size(), data);
}

}  // namespace cli
