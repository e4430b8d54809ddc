#include "draft_arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

#include "arguments.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

// No vocabulary comes near it; a mistyped id does not ask for gigabytes.
constexpr std::int64_t kMostId = 1 << 24;

fd::Error corrupt(const std::string& found) {
  return fd::Error(fd::ErrorCode::kCorruptFile, found, "a token id and a count >= 0, each id once",
                   "one pair a line, or JSON {\"id\": count}");
}

/// Counts as they come, of ids in any order.
class Counts {
 public:
  void add(std::int64_t id, std::int64_t count, const std::string& where) {
    if (id < 0 || id > kMostId || count < 0) throw corrupt(where);
    if (!counts_.emplace(fd::idx(id), count).second) {
      throw corrupt(where + ", token " + std::to_string(id) + " again");
    }
  }
  std::vector<std::int64_t> by_id() const {
    std::vector<std::int64_t> list(counts_.empty() ? 0 : counts_.rbegin()->first + 1);
    for (const auto& [id, count] : counts_) list[id] = count;
    return list;
  }

 private:
  std::map<std::size_t, std::int64_t> counts_;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// A whole number and nothing else. @errors kCorruptFile
std::int64_t number(std::string_view text, const std::string& where) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw corrupt(where);
  return value;
}

std::int64_t number(const Json& value) {
  const auto number = whole_number(value);
  if (!number) throw corrupt("JSON " + value.dump().substr(0, 40));
  return *number;
}

/// Refuses a member that comes twice, of which the object would keep one. @errors kCorruptFile
class EachOnce {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& name) {
    const bool member = depth == 1 && event == Json::parse_event_t::key;
    if (member && !seen_.insert(name.get<std::string>()).second) {
      throw corrupt("\"" + visible(name.get<std::string>()) + "\" again");
    }
    return true;
  }

 private:
  std::set<std::string> seen_;
};

std::vector<std::int64_t> parse_json(std::string_view text) {
  EachOnce once;
  const Json json = Json::parse(text, std::ref(once), false);  // damaged: neither object nor array
  Counts counts;
  if (json.is_object()) {
    for (const auto& [id, count] : json.items()) {
      const std::string where = "\"" + visible(id) + "\"";
      counts.add(number(std::string_view(id), where), number(count), where);
    }
  } else if (json.is_array()) {
    for (const Json& pair : json) {
      if (!pair.is_array() || pair.size() != 2) throw corrupt("JSON that holds no pairs");
      counts.add(number(pair[0]), number(pair[1]), "JSON " + pair.dump());
    }
  } else {
    throw corrupt("JSON that is damaged");
  }
  return counts.by_id();
}

}  // namespace

std::vector<std::int64_t> parse_counts(std::string_view text) {
  // What is in the file says what it is, whatever its name.
  const std::string_view content = trimmed(text);
  if (content.empty()) throw corrupt("nothing");
  if (content.front() == '{' || content.front() == '[') return parse_json(content);
  Counts counts;
  for (int n = 1; !text.empty(); ++n) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::string where = "line " + std::to_string(n);
    const std::size_t space = line.find_first_of(" \t");
    if (space == std::string_view::npos) throw corrupt(where);
    counts.add(number(line.substr(0, space), where), number(trimmed(line.substr(space)), where),
               where);
  }
  return counts.by_id();
}

void DraftArguments::add_to(CLI::App& command) {
  add_choice(command, "--quantize-draft FORMAT", format, {"q4_0", "q8_0", kAsItIs},
             "hold the draft model's weights in q4_0 or q8_0 where that makes them smaller; it "
             "changes what is drafted, not the text [q4_0, where neither --draft-vocab nor "
             "--keep-packed is given]");
  add_number(
      command, "--draft-vocab N", n_vocab, 1, std::numeric_limits<int>::max(),
      "the draft model knows the N most frequent tokens only; the text may hold all the same "
      "[32768 of a large vocabulary, where neither --quantize-draft nor --keep-packed is given]");
  require_text(
      add_value(command, "--draft-vocab-counts FILE", counts_file,
                "which tokens are frequent: lines 'id count', or JSON [the tokenizer's order]"));
}

void DraftArguments::check(bool with_draft_model) const {
  const std::string found = !format.empty()        ? "--quantize-draft"
                            : n_vocab > 0          ? "--draft-vocab"
                            : !counts_file.empty() ? "--draft-vocab-counts"
                                                   : "";
  if (!with_draft_model && !found.empty()) {
    throw UsageError(found + " without a draft model, which it is for", "a draft model",
                     "add -md FILE");
  }
  if (!counts_file.empty() && n_vocab == 0) {
    throw UsageError("--draft-vocab-counts without --draft-vocab",
                     "how many tokens to keep by their counts", "add --draft-vocab N");
  }
}

std::optional<fd::LoadOptions> DraftArguments::options(bool mapped) const {
  if (format.empty() && n_vocab == 0 && !mapped) return std::nullopt;
  fd::LoadOptions options{.head_tokens = n_vocab};
  if (!format.empty() && format != kAsItIs) {
    options.requantize = format == "q4_0" ? fd::TensorType::kQ4_0 : fd::TensorType::kQ8_0;
  }
  if (counts_file.empty()) return options;
  const std::string text = read_text_file(counts_file);
  try {
    options.token_counts = parse_counts(text);
  } catch (const fd::Error& error) {
    throw error_in("'" + visible(counts_file) + "'", error);
  }
  return options;
}

}  // namespace cli
