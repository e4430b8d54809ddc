#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <foredraft/core/state_archive.hpp>

namespace foredraft::inline v0 {

/// A snapshot of any type behind one type. Copies share what they hold, which never changes.
class AnyState {
 public:
  AnyState() = default;
  template <typename S>
  static AnyState of(S state) {
    AnyState any;
    any.held_ = std::make_shared<const Holder<S>>(std::move(state));
    return any;
  }

  /// Null where it holds another type, or nothing.
  template <typename S>
  const S* get() const noexcept {
    const auto* holder = dynamic_cast<const Holder<S>*>(held_.get());
    return holder == nullptr ? nullptr : &holder->state;
  }

  bool empty() const noexcept { return held_ == nullptr; }
  void measure(StateMemory& memory) const {
    if (held_) held_->measure(memory);
  }

  /// With a length in front, so that whoever reads it can pass over it. One of a type that names no
  /// parts is written as absent.
  void write_state(StateWriter& archive) const {
    PayloadWriter own;
    if (held_) held_->write(own);
    archive.out().put(static_cast<std::uint64_t>(own.bytes().size()));
    archive.out().append(own.bytes());
  }
  /// What was absent leaves nothing here.
  /// @errors kCorruptFile where it is that of another type
  void read_state(StateReader& archive) {
    const std::size_t size = archive.in().take_count(1, "bytes of a drafter's state");
    const std::size_t behind = archive.in().remaining() - size;
    held_ = size > 0 && held_ ? held_->read(archive) : nullptr;
    if (archive.in().remaining() != behind) {
      throw archive.in().error("a drafter's state of " + std::to_string(size) + " bytes",
                               "one of this kind of drafter");
    }
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual void measure(StateMemory& memory) const = 0;
    virtual void write(PayloadWriter& out) const = 0;
    virtual std::shared_ptr<const Interface> read(StateReader& archive) const = 0;
  };

  template <typename S>
  struct Holder final : Interface {
    explicit Holder(S held) : state(std::move(held)) {}
    void measure(StateMemory& memory) const override { memory.add(state); }
    void write(PayloadWriter& out) const override {
      if constexpr (NamesParts<const S, StateWriter>) StateWriter{out}(state);
    }
    std::shared_ptr<const Interface> read(StateReader& archive) const override {
      auto fresh = std::make_shared<Holder>(state);
      if constexpr (NamesParts<S, StateReader>) archive(fresh->state);
      return fresh;
    }
    S state;
  };

  std::shared_ptr<const Interface> held_;
};

}  // namespace foredraft::inline v0
