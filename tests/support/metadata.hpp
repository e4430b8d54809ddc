#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <foredraft/io/gguf_writer.hpp>
#include <foredraft/model/family/families.hpp>

/// Metadata of a llama model, with changes.
struct Metadata {
  std::map<std::string, std::uint32_t> numbers{
      {"llama.block_count", 2},          {"llama.context_length", 128},
      {"llama.embedding_length", 64},    {"llama.feed_forward_length", 96},
      {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2}};
  std::map<std::string, float> reals{};
  std::map<std::string, std::string> texts{{"general.architecture", "llama"}};
  std::map<std::string, bool> flags{};

  /// The same keys of another family.
  static Metadata of(const std::string& family) {
    Metadata metadata;
    metadata.numbers.clear();
    for (const auto& [key, value] : Metadata{}.numbers) {
      metadata.numbers[family + key.substr(key.find('.'))] = value;
    }
    metadata.texts = {{"general.architecture", family}};
    return metadata;
  }

  foredraft::ModelConfig read() const {
    foredraft::GgufWriter writer;
    for (const auto& [key, value] : numbers) writer.add(key, value);
    for (const auto& [key, value] : reals) writer.add(key, value);
    for (const auto& [key, value] : texts) writer.add(key, value);
    for (const auto& [key, value] : flags) writer.add(key, value);
    const auto bytes = writer.bytes();
    return foredraft::read_config(foredraft::Gguf::parse(bytes));
  }

  std::string_view refused() const {
    try {
      read();
    } catch (const foredraft::Error& error) {
      return foredraft::name_of(error.code());
    }
    return "none";
  }
};
