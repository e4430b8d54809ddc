#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/io/gguf.hpp>

namespace foredraft::inline v0::detail {

/// Reads `family.key` values and holds them to what a decoder can be.
class ConfigReader {
 public:
  ConfigReader(const Gguf& file, std::string family) : file_(file), family_(std::move(family)) {}

  /// The one way from a number of a file to a size.
  Dim dimension(std::string_view key, std::optional<int> otherwise = {},
                int most = Dim::kMost) const {
    const std::string name = family_ + "." + std::string(key);
    const auto value = file_.get_uint(name);
    if (!value && otherwise) return *otherwise;
    if (!value || *value == 0 || *value > static_cast<std::uint64_t>(most)) {
      throw Error(ErrorCode::kCorruptFile,
                  value ? name + " = " + std::to_string(*value) : "no " + name,
                  "a value from 1 to " + std::to_string(most), kDamaged);
    }
    return static_cast<int>(*value);
  }

  /// A number for each of n layers, 0 included; in the file they may be one that all layers share.
  std::vector<Dim> of_layers(std::string_view key, Dim n) const {
    const std::string name = family_ + "." + std::string(key);
    const GgufValue* const value = file_.find(name);
    std::vector<Dim> numbers;
    if (value == nullptr || !value->is_array()) {
      numbers.assign(idx(n), dimension(key));
      return numbers;
    }
    const auto found = file_.get_ints(name);
    if (found->size() != idx(n)) {
      throw Error(ErrorCode::kCorruptFile,
                  name + " of " + std::to_string(found->size()) + " layers",
                  std::to_string(n) + " layers", kDamaged);
    }
    for (const std::int64_t number : *found) {
      if (number < 0 || number > Dim::kMost) {
        throw Error(ErrorCode::kCorruptFile, name + " with " + std::to_string(number),
                    "values from 0 to " + std::to_string(Dim::kMost), kDamaged);
      }
      numbers.emplace_back(static_cast<int>(number));
    }
    return numbers;
  }

  /// A flag for each of n layers.
  std::vector<bool> flags_of_layers(std::string_view key, Dim n) const {
    const std::string name = family_ + "." + std::string(key);
    auto flags = file_.get_bools(name);
    if (flags && flags->size() == idx(n)) return *std::move(flags);
    throw Error(ErrorCode::kCorruptFile,
                flags ? name + " of " + std::to_string(flags->size()) + " layers" : "no " + name,
                std::to_string(n) + " layers", kDamaged);
  }

  /// All heads of one kind, side by side.
  static Dim all_heads(Dim n_heads, Dim d_head) {
    if (const auto width = checked_product(n_heads, d_head)) return *width;
    throw Error(ErrorCode::kCorruptFile,
                std::to_string(n_heads) + " heads of " + std::to_string(d_head) + " dimensions",
                "at most " + std::to_string(Dim::kMost) + " dimensions in all", kDamaged);
  }

  bool has(std::string_view key) const {
    return file_.find(family_ + "." + std::string(key)) != nullptr;
  }

  double number(std::string_view key, double otherwise) const {
    return file_.get_float(family_ + "." + std::string(key)).value_or(otherwise);
  }

  bool flag(std::string_view key, bool otherwise) const {
    return file_.get_bool(family_ + "." + std::string(key)).value_or(otherwise);
  }

  double positive(std::string_view key, double otherwise) const {
    const std::string name = family_ + "." + std::string(key);
    const double value = number(key, otherwise);
    if (std::isfinite(value) && value > 0) return value;
    throw Error(ErrorCode::kCorruptFile, name + " = " + std::to_string(value),
                "a finite value above 0", "the file is damaged");
  }

  float epsilon(std::string_view key, double otherwise) const {
    const double value = positive(key, otherwise);
    if (value <= 1 && static_cast<float>(value) > 0) return static_cast<float>(value);
    std::ostringstream found;
    found << family_ << '.' << key << " = " << value;
    throw Error(ErrorCode::kCorruptFile, found.str(), "a float above 0, at most 1", kDamaged);
  }

  std::optional<std::string_view> text(std::string_view key) const {
    return file_.get_string(family_ + "." + std::string(key));
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& value,
                           const std::string& expected) const {
    throw Error(ErrorCode::kUnsupportedModel, family_ + "." + std::string(key) + " = " + value,
                expected, "this version leaves that step out, so its text would be wrong");
  }

 private:
  static constexpr std::string_view kDamaged = "the file is damaged or not a language model";

  const Gguf& file_;
  std::string family_;
};

inline void require(bool holds, const std::string& found, const std::string& expected) {
  if (!holds) throw Error(ErrorCode::kCorruptFile, found, expected, "the file is damaged");
}

}  // namespace foredraft::inline v0::detail
