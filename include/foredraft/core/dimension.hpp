#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// A dimension of a model: how many heads, columns, layers, tokens or positions there are.
///
/// Files choose dimensions, so each is at most kMost, and no product of two of them happens by
/// accident. As `int` the product of two harmless numbers wraps; tensors of a hostile file match the
/// wrapped number, memory is reserved by it, and loops over the factors write beyond. Whoever means
/// a product says which: area() counts elements and cannot wrap, checked_product() is a dimension
/// again. As an index, or the bound of a loop, a dimension is an `int`.
class Dim {
 public:
  /// No real dimension comes near. Two of them fit 64 bits with room for the size of an element.
  static constexpr int kMost = 1 << 26;

  constexpr Dim() noexcept = default;
  /// @errors kInvalidOption outside 0 .. kMost
  constexpr Dim(int value) : value_(value) {  // NOLINT(google-explicit-constructor): sizes of tests
    if (value < 0 || value > kMost) refuse(value);
  }

  constexpr operator int() const noexcept { return value_; }  // NOLINT(google-explicit-constructor)

  friend int operator*(std::same_as<Dim> auto, std::same_as<Dim> auto) = delete;
  friend int operator*(std::same_as<Dim> auto, std::integral auto) = delete;
  friend int operator*(std::integral auto, std::same_as<Dim> auto) = delete;

 private:
  [[noreturn]] static void refuse(int value) {
    throw Error(ErrorCode::kInvalidOption, "a dimension of " + std::to_string(value),
                "0 to " + std::to_string(kMost), "take the sizes from the model");
  }

  int value_ = 0;
};

/// Elements of a matrix.
constexpr std::size_t area(Dim rows, Dim columns) noexcept { return idx(rows) * idx(columns); }

/// A dimension made of two, such as all heads side by side; nothing where no dimension is as large.
constexpr std::optional<Dim> checked_product(Dim a, Dim b) {
  const std::size_t product = area(a, b);
  if (product > std::size_t{Dim::kMost}) return std::nullopt;
  return Dim(static_cast<int>(product));
}

}  // namespace foredraft::inline v0
