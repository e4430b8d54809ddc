#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace foredraft::inline v0::cuda {

/// Why an access was wrong; null where it was not.
using Complaint = const char*;

/// When something happens while the host executes kernels. Phases are numbered through: each block of
/// each kernel begins one, and each barrier of the block. Phase 0 is "never", 1 is "by the host".
struct Moment {
  std::uint32_t kernel = 2;  // first phase of the kernel that runs
  std::uint32_t block = 2;   // first phase of the block that runs
  std::uint32_t now = 2;
  std::uint16_t thread = 0;  // of the block
};

/// Who read and wrote two bytes last, and what that says of the next access.
///
/// Two accesses, one of them a write, are in order where a barrier lies between them in one block, or
/// the end of a kernel. If not, it is luck who comes first: a race. Two blocks of one kernel are never
/// in order.
class AccessRecord {
 public:
  Complaint read(const Moment& m) noexcept {
    if (written_ == 0) return "reads memory that nobody has written";
    if (unordered(written_, writer_, m)) return "reads what another thread writes: a race";
    if (first_read_ < m.kernel) first_read_ = m.now;
    reader_ = read_ == m.now && reader_ != m.thread ? kSeveral : m.thread;
    read_ = m.now;
    return nullptr;
  }

  Complaint write(const Moment& m) noexcept {
    if (written_ > 1 && unordered(written_, writer_, m)) {
      return "writes what another thread writes: a race";
    }
    if (unordered(read_, reader_, m) || (first_read_ >= m.kernel && first_read_ < m.block)) {
      return "writes what another thread reads: a race";
    }
    written_ = m.now;
    writer_ = m.thread;
    return nullptr;
  }

  /// Atomic operations are in no order either, and need none among themselves.
  Complaint update(const Moment& m) noexcept {
    if (written_ == 0) return "updates memory that nobody has written";
    if (writer_ != kAtomic && unordered(written_, writer_, m)) {
      return "updates what another thread writes: a race";
    }
    if (unordered(read_, reader_, m)) return "updates what another thread reads: a race";
    written_ = m.now;
    writer_ = kAtomic;
    return nullptr;
  }

  void written_by_host() noexcept { *this = AccessRecord{.written_ = 1}; }

  // Public, so that this is an aggregate; nobody else looks at them.
  std::uint32_t written_ = 0;     // phase of the last write
  std::uint32_t read_ = 0;        // phase of the last read
  std::uint32_t first_read_ = 0;  // first phase of the last kernel that read it
  std::uint16_t writer_ = 0;
  std::uint16_t reader_ = 0;

 private:
  static constexpr std::uint16_t kSeveral = 0xffff;
  static constexpr std::uint16_t kAtomic = 0xfffe;

  static bool unordered(std::uint32_t then, std::uint16_t thread, const Moment& m) noexcept {
    if (then < m.kernel) return false;
    return then < m.block || (then == m.now && thread != m.thread);
  }
};

enum class Access : std::uint8_t {
  kRead,
  kWrite,
  kUpdate
};

/// A piece of memory, with a record for each two bytes of it. Single bytes are too small to share.
class CheckedPiece {
 public:
  static constexpr std::size_t kUnit = 2;

  explicit CheckedPiece(std::size_t bytes)
      : bytes_(bytes), memory_(new Line[bytes / sizeof(Line) + 1]) {
    records_.resize((bytes + kUnit - 1) / kUnit);
  }

  std::byte* data() const noexcept { return memory_[0].bytes; }
  std::size_t size() const noexcept { return bytes_; }

  /// @param bytes  from offset on, all of them inside
  Complaint access(Access kind, std::size_t offset, std::size_t bytes, const Moment& m) noexcept {
    Complaint complaint = nullptr;
    for (std::size_t i = offset / kUnit; i < (offset + bytes + kUnit - 1) / kUnit; ++i) {
      Complaint next = nullptr;
      switch (kind) {
        case Access::kRead: next = records_[i].read(m); break;
        case Access::kWrite: next = records_[i].write(m); break;
        case Access::kUpdate: next = records_[i].update(m); break;
      }
      if (complaint == nullptr) complaint = next;
    }
    return complaint;
  }

  void written_by_host(std::size_t offset, std::size_t bytes) noexcept {
    for (std::size_t i = offset / kUnit; i < (offset + bytes + kUnit - 1) / kUnit; ++i) {
      records_[i].written_by_host();
    }
  }
  /// No kernel wrote any of it.
  bool only_host_wrote(std::size_t offset, std::size_t bytes) const noexcept {
    for (std::size_t i = offset / kUnit; i < (offset + bytes + kUnit - 1) / kUnit; ++i) {
      if (records_[i].written_ > 1) return false;
    }
    return true;
  }
  /// As if it were new.
  void forget() noexcept { std::fill(records_.begin(), records_.end(), AccessRecord{}); }
  /// Likewise, a part: whole units.
  void forget(std::size_t offset, std::size_t bytes) noexcept {
    const auto first = records_.begin() + static_cast<std::ptrdiff_t>(offset / kUnit);
    std::fill_n(first, bytes / kUnit, AccessRecord{});
  }

 private:
  struct alignas(256) Line {  // as a GPU aligns what it allocates
    std::byte bytes[256];
  };

  std::size_t bytes_;
  std::unique_ptr<Line[]> memory_;
  std::vector<AccessRecord> records_;
};

/// All memory that kernels may reach: pieces that somebody allocated, each with its bounds.
class CheckedMemory {
 public:
  /// @errors std::bad_alloc
  std::byte* allocate(std::size_t bytes) {
    auto piece = std::make_unique<CheckedPiece>(bytes);
    std::byte* const data = piece->data();
    pieces_.emplace(address(data), std::move(piece));
    return data;
  }
  void release(const void* data) noexcept {
    recent_ = {};
    pieces_.erase(address(data));
  }

  /// The piece that holds all of some bytes; null where there is none.
  CheckedPiece* find(const void* data, std::size_t bytes) noexcept {
    const std::uintptr_t at = address(data);
    for (CheckedPiece* piece : recent_) {
      if (piece != nullptr && inside(*piece, at, bytes)) return piece;
    }
    auto next = pieces_.upper_bound(at);
    if (next == pieces_.begin()) return nullptr;
    CheckedPiece* const piece = std::prev(next)->second.get();
    if (!inside(*piece, at, bytes)) return nullptr;
    recent_[turn_++ % recent_.size()] = piece;
    return piece;
  }

  std::size_t pieces() const noexcept { return pieces_.size(); }

 private:
  static std::uintptr_t address(const void* data) noexcept {
    return reinterpret_cast<std::uintptr_t>(data);
  }
  static bool inside(const CheckedPiece& piece, std::uintptr_t at, std::size_t bytes) noexcept {
    const std::uintptr_t begin = address(piece.data());
    return at >= begin && bytes <= piece.size() && at - begin <= piece.size() - bytes;
  }

  std::map<std::uintptr_t, std::unique_ptr<CheckedPiece>> pieces_;
  std::array<CheckedPiece*, 4> recent_ = {};  // those that were asked for last
  std::size_t turn_ = 0;
};

}  // namespace foredraft::inline v0::cuda
