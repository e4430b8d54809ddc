#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/table_payload.hpp>

namespace foredraft::inline v0 {

/// What snapshots are made of, for whoever measures, writes or reads them.
///
/// A snapshot names its parts once, in a static member
///
///     static void parts(auto& self, auto& archive) { archive(self.size); archive(self.k); }
///
/// and the archives below do their work with that list, so that what is measured, written and read
/// is the same. Parts are whole numbers, floats, strings, vectors of parts, vectors of elements that
/// are copied as they lie (keys and values), other snapshots, vectors of shared pointers to parts, and
/// types without members. A type that names no parts holds what cannot be written, or is not worth
/// it: what it says is learnt again from the tokens.
template <typename T, typename Archive>
concept NamesParts =
    requires(T& value, Archive& archive) { std::remove_const_t<T>::parts(value, archive); };

namespace detail {
struct AnyArchive {
  void operator()(auto&) {}
};
/// Elements whose bytes say all there is.
template <typename T>
inline constexpr bool kPlainElements =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !NamesParts<T, AnyArchive>;
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = !std::is_same_v<T, bool>;
/// Parts that several snapshots may have.
template <typename T>
inline constexpr bool kIsShared = false;
template <typename T>
inline constexpr bool kIsShared<std::shared_ptr<const T>> = true;
}  // namespace detail

/// All of a snapshot of type `S` can be written.
template <typename S>
concept Storable = std::is_empty_v<S> || NamesParts<S, detail::AnyArchive>;

/// What a snapshot takes.
class StateMemory {
 public:
  /// A part that other snapshots may have, too.
  struct Shared {
    const void* part;
    std::size_t bytes;
  };

  /// All of one snapshot. @units bytes
  template <typename T>
  static std::size_t of(const T& value) {
    StateMemory memory;
    memory.add(value);
    return memory.all();
  }

  template <typename T>
  void add(const T& value) {
    own_ += sizeof(T);
    (*this)(value);
  }

  std::size_t all() const noexcept {
    std::size_t sum = own_;
    for (const Shared& shared : shared_) sum += shared.bytes;
    return sum;
  }
  /// Without shared parts. @units bytes
  std::size_t own() const noexcept { return own_; }
  const std::vector<Shared>& shared() const noexcept { return shared_; }

  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::same_as<T, std::string>) {
      own_ += value.capacity();
    } else if constexpr (detail::kIsVector<T>) {
      own_ += value.capacity() * sizeof(typename T::value_type);
      if constexpr (!detail::kPlainElements<typename T::value_type>) {
        for (const auto& part : value) (*this)(part);
      }
    } else if constexpr (detail::kIsShared<T>) {
      shared_.push_back({value.get(), of(*value)});
    } else if constexpr (requires { value.measure(*this); }) {
      value.measure(*this);
    } else if constexpr (NamesParts<const T, StateMemory>) {
      T::parts(value, *this);
    }
  }

 private:
  std::size_t own_ = 0;
  std::vector<Shared> shared_;
};

/// Appends a snapshot to a payload. Elements are written as this machine lays them out, which is
/// little-endian wherever foredraft runs.
class StateWriter {
 public:
  explicit StateWriter(PayloadWriter& out) noexcept : out_(out) {}

  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      (*this)(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::same_as<T, bool>) {
      out_.put(static_cast<std::uint8_t>(value));
    } else if constexpr (std::integral<T>) {
      out_.put(value);
    } else if constexpr (std::floating_point<T>) {
      out_.append(std::as_bytes(std::span(&value, 1)));
    } else if constexpr (std::same_as<T, std::string>) {
      out_.put(static_cast<std::uint64_t>(value.size()));
      out_.append(std::as_bytes(std::span(value)));
    } else if constexpr (detail::kIsVector<T>) {
      out_.put(static_cast<std::uint64_t>(value.size()));
      if constexpr (detail::kPlainElements<typename T::value_type>) {
        out_.append(std::as_bytes(std::span(value)));
      } else {
        for (const auto& part : value) (*this)(part);
      }
    } else if constexpr (detail::kIsShared<T>) {
      (*this)(*value);
    } else if constexpr (requires { value.write_state(*this); }) {
      value.write_state(*this);
    } else if constexpr (!std::is_empty_v<T>) {
      static_assert(NamesParts<const T, StateWriter>,
                    "this part of a snapshot names no parts: see state_archive.hpp");
      T::parts(value, *this);
    }
  }

  PayloadWriter& out() noexcept { return out_; }

 private:
  PayloadWriter& out_;
};

/// Takes a snapshot from a payload, over one of the same kind. Sizes are held to the bytes there
/// are; what numbers mean is checked by whoever restores the snapshot.
/// @errors kCorruptFile; the snapshot is then to be thrown away
class StateReader {
 public:
  explicit StateReader(PayloadReader& in) noexcept : in_(in) {}

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_enum_v<T>) {
      static_assert(!std::is_enum_v<T>, "a number that is no enumerator must not become one");
    } else if constexpr (std::same_as<T, bool>) {
      value = in_.take_within<std::uint8_t>(0, 1, "flag") != 0;
    } else if constexpr (std::integral<T>) {
      value = in_.take<T>("number");
    } else if constexpr (std::floating_point<T>) {
      in_.take_bytes(std::as_writable_bytes(std::span(&value, 1)), "number");
    } else if constexpr (std::same_as<T, std::string>) {
      value.resize(in_.take_count(1, "characters"));
      in_.take_bytes(std::as_writable_bytes(std::span(value)), "characters");
    } else if constexpr (detail::kIsVector<T>) {
      using Element = typename T::value_type;
      if constexpr (detail::kPlainElements<Element>) {
        value.resize(in_.take_count(sizeof(Element), "elements"));
        in_.take_bytes(std::as_writable_bytes(std::span(value)), "elements");
      } else if constexpr (detail::kIsShared<Element>) {
        value.clear();
        for (std::size_t n = in_.take_count(1, "parts"); n > 0; --n) {
          auto part = std::make_shared<std::remove_const_t<typename Element::element_type>>();
          (*this)(*part);
          value.push_back(std::move(part));
        }
      } else {
        // As many as there are here: what is read belongs to the same policies.
        const auto count = in_.take<std::uint64_t>("number of parts");
        if (count != value.size()) {
          throw in_.error(std::to_string(count) + " parts", std::to_string(value.size()));
        }
        for (auto& part : value) (*this)(part);
      }
    } else if constexpr (requires { value.read_state(*this); }) {
      value.read_state(*this);
    } else if constexpr (!std::is_empty_v<T>) {
      static_assert(NamesParts<T, StateReader>,
                    "this part of a snapshot names no parts: see state_archive.hpp");
      T::parts(value, *this);
    }
  }

  PayloadReader& in() noexcept { return in_; }

 private:
  PayloadReader& in_;
};

}  // namespace foredraft::inline v0
