#include "inspect_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/io/chat_format.hpp>

#include "terminal.hpp"

namespace cli {

namespace {

constexpr std::uint64_t kMostShown = 8;  // elements of an array

std::string type_name(const fd::Gguf::Tensor& tensor) {
  const auto layout = fd::layout_of(tensor.type);
  return layout ? std::string(layout->name) : "type " + std::to_string(tensor.type_number);
}

/// Elements of a tensor; 0 where the product does not fit, which only a damaged file has.
std::uint64_t elements(const fd::Gguf::Tensor& tensor) {
  std::optional<std::uint64_t> product = 1;
  for (const std::uint64_t size : tensor.shape) {
    if (product) product = fd::checked_mul(*product, size);
  }
  return product.value_or(0);
}

Json first_elements(const fd::GgufValue& value) {
  Json list = Json::array();
  if (value.element == fd::GgufType::kString) {
    fd::visit_strings(
        value, [&](std::string_view text) { list.push_back(std::string(text)); }, kMostShown);
    return list;
  }
  const auto count = static_cast<std::size_t>(std::min(value.count, kMostShown));
  for (std::size_t i = 0; i < count; ++i) {
    fd::visit_number(value, i, [&](auto number) { list.push_back(number); });
  }
  return list;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// How its tokenizer works, for people.
std::string_view kind_of(const fd::Vocabulary& v) {
  switch (v.type()) {
    case fd::VocabularyType::kByteLevel: return "byte-level";
    case fd::VocabularyType::kSentencePiece: return "SentencePiece";
    case fd::VocabularyType::kMergedText: break;
  }
  return "merged text";
}

}  // namespace

Findings examine(const std::filesystem::path& path, const fd::Gguf& file, int n_ctx) {
  Findings found;
  found.path = path;
  const auto text = [&](std::string_view key) {
    const fd::GgufValue* value = file.find(key);
    const bool is_text = value != nullptr && value->type == fd::GgufType::kString;
    return is_text ? std::string(*file.get_string(key)) : std::string();
  };
  found.family = text("general.architecture");
  found.name = text("general.name");
  for (const auto& tensor : file.tensors()) {
    found.parameters = fd::checked_add(found.parameters, elements(tensor)).value_or(UINT64_MAX);
  }
  // Of several obstacles the first is told: the family comes before its tensors.
  const auto attempt = [&](auto&& step) {
    try {
      step();
    } catch (const fd::Error& error) {
      if (found.why_not.empty()) found.why_not = error.what();
    }
  };
  attempt([&] { found.survey = survey(file); });
  attempt([&] { found.tokenizer = fd::Tokenizer::from(file); });
  if (found.survey) {
    check_context(n_ctx, found.survey->config.n_ctx);
    found.n_ctx = n_ctx > 0 ? n_ctx : default_context(found.survey->config.n_ctx);
  }
  try {
    const auto chat = fd::recognize_chat_template(text("tokenizer.chat_template"));
    found.chat_format = fd::name_of(chat.format);
  } catch (const fd::Error&) {
    found.chat_format.clear();  // raw prompts work all the same
  }
  return found;
}

std::string types_in_use(const fd::Gguf& file) {
  std::vector<std::pair<std::string, int>> counts;
  for (const auto& tensor : file.tensors()) {
    auto known = std::ranges::find(counts, type_name(tensor), &std::pair<std::string, int>::first);
    if (known == counts.end()) known = counts.insert(known, {type_name(tensor), 0});
    ++known->second;
  }
  std::string list;
  for (const auto& [name, count] : counts) {
    list += (list.empty() ? "" : ", ") + name + " " + std::to_string(count);
  }
  return list;
}

std::string describe(const fd::Tokenizer& tokenizer) {
  const fd::Vocabulary& v = tokenizer.vocabulary();
  std::string out(kind_of(v));
  if (v.type() == fd::VocabularyType::kByteLevel) out += ", pre-tokenizer " + excerpt(v.pre(), 40);
  out += ", " + std::to_string(v.size()) + " tokens, ";
  out += v.adds_bos() ? "begins with " + excerpt(v.piece(*v.bos(), true), 30) : "adds no BOS";
  for (const fd::TokenId id : v.ends()) {
    out += (id == v.ends().front() ? "; ends at " : ", ") + excerpt(v.piece(id, true), 30);
  }
  return out;
}

std::string metadata_table(const fd::Gguf& file) {
  std::string out = "\nmetadata\n";
  for (const fd::GgufEntry& entry : file.metadata()) {
    const std::string count =
        entry.value.is_array() ? "  (" + std::to_string(entry.value.count) + ")" : "";
    out += "  " + padded(visible(entry.key), 42) + "  " +
           visible(fd::to_string(entry.value, kMostShown)) + count + "\n";
  }
  return out;
}

std::string tensor_table(const fd::Gguf& file) {
  std::string out = "\ntensors\n";
  for (const auto& tensor : file.tensors()) {
    std::string shape;
    for (const std::uint64_t size : tensor.shape) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(size);
    }
    out += "  " + padded(visible(tensor.name), 32) + padded(type_name(tensor), 8) +
           padded(shape, 20) + readable_bytes(static_cast<double>(tensor.data.size())) + "\n";
  }
  return out;
}

Json tokenizer_to_json(const fd::Tokenizer& tokenizer) {
  const fd::Vocabulary& v = tokenizer.vocabulary();
  // Scripts compare it, so it is spelled in one case.
  const bool sentence_piece = v.type() == fd::VocabularyType::kSentencePiece;
  const std::string kind(sentence_piece ? "sentencepiece" : kind_of(v));
  const std::vector<fd::TokenId> ends(v.ends().begin(), v.ends().end());
  return Json::object({{"type", kind},
                       {"pre", v.pre()},
                       {"size", v.size()},
                       {"bos", v.bos() ? Json(*v.bos()) : Json()},
                       {"adds_bos", v.adds_bos()},
                       {"ends", ends}});
}

Json metadata_to_json(const fd::Gguf& file) {
  Json object = Json::object();
  for (const fd::GgufEntry& entry : file.metadata()) {
    const Json first = first_elements(entry.value);
    Json& value = object[std::string(entry.key)];
    // A scalar lies in the file like an array of one.
    if (!entry.value.is_array()) {
      value = first.at(0);
    } else if (entry.value.count <= kMostShown) {
      value = first;
    } else {
      value = Json::object({{"type", std::string(fd::layout_of(entry.value.element)->name)},
                            {"count", entry.value.count},
                            {"first", first}});
    }
  }
  return object;
}

Json tensors_to_json(const fd::Gguf& file) {
  Json list = Json::array();
  for (const auto& tensor : file.tensors()) {
    list.push_back(Json::object({{"name", std::string(tensor.name)},
                                 {"type", type_name(tensor)},
                                 {"shape", tensor.shape},
                                 {"bytes", tensor.data.size()}}));
  }
  return list;
}

}  // namespace cli
