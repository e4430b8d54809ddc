// How much memory the GGUF reader takes, and what it does when there is none: this program counts
// and fails allocations through its own operator new.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "io/gguf_samples.hpp"
#include "support/catch.hpp"

namespace {

constexpr std::size_t kNever = SIZE_MAX;

std::size_t allocated = 0;           // bytes asked for since the last watch began
std::size_t until_failure = kNever;  // allocations that still succeed

void* counted(std::size_t size) {
  if (until_failure != kNever && until_failure-- == 0) {
    until_failure = kNever;
    throw std::bad_alloc();
  }
  allocated += size;
  void* const data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }

namespace fd = foredraft;
using fd::GgufType;
using samples::RawBytes;

namespace {

/// Bytes that one attempt to parse asks for, whether it succeeds or not.
std::size_t memory_to_parse(const std::vector<std::byte>& bytes) {
  allocated = 0;
  try {
    const fd::Gguf file = fd::Gguf::parse(bytes);
    return allocated;
  } catch (const fd::Error&) {
    return allocated;
  }
}

/// The worst file is nothing but the shortest entries: 48 bytes for each of 14, four times over
/// because a vector grows by doubling, and its place in the index. The constant is room for an
/// error message.
std::size_t limit_for(const std::vector<std::byte>& bytes) { return 20 * bytes.size() + 4096; }

}  // namespace

TEST_CASE("no file makes the reader ask for more than a small multiple of its size") {
  const auto whole = samples::small_file();
  CHECK(memory_to_parse(whole) <= limit_for(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(),
                                      whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (memory_to_parse(part) > limit_for(part)) FAIL("truncated to " << size);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0xff, 0x80, 0x7f, 0x40, 0x01}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] ^= static_cast<std::byte>(change);
      if (memory_to_parse(bytes) > limit_for(bytes)) FAIL("byte " << at << " xor " << change);
    }
  }
}

TEST_CASE("announced counts allocate nothing") {
  for (const std::uint64_t count : {UINT64_MAX, std::uint64_t{1} << 63, std::uint64_t{1} << 40}) {
    const RawBytes files[] = {
        RawBytes{}.header(count, 0).fill(100),
        RawBytes{}.header(0, count).fill(100),
        RawBytes{}.header(0, 1).put(count).fill(100),
        RawBytes{}.header(0, 1).entry("k", GgufType::kString).put(count).fill(100),
        RawBytes{}.header(0, 1).array("k", GgufType::kU8, count).fill(100),
        RawBytes{}.header(0, 1).array("k", GgufType::kString, count).fill(100),
        RawBytes{}.header(1, 0).put(count).fill(100),
    };
    for (const RawBytes& file : files) CHECK(memory_to_parse(file.data) <= 4096);
  }
}

TEST_CASE("many short entries stay within the limit") {
  RawBytes keys;
  keys.header(0, 20'000);
  for (int i = 0; i < 20'000; ++i)
    keys.entry(std::to_string(i), GgufType::kU8).put(std::uint8_t{1});
  CHECK(memory_to_parse(keys.data) <= limit_for(keys.data));
  CHECK(fd::Gguf::parse(keys.data).metadata().size() == 20'000);

  RawBytes tensors;
  tensors.header(20'000, 0);
  for (int i = 0; i < 20'000; ++i) tensors.tensor(std::to_string(i), {0}, fd::TensorType::kF32, 0);
  tensors.pad(32);
  CHECK(memory_to_parse(tensors.data) <= limit_for(tensors.data));
  CHECK(fd::Gguf::parse(tensors.data).tensors().size() == 20'000);
}

TEST_CASE("an allocation that fails is an error, whichever it is") {
  const auto bytes = samples::small_file();
  std::size_t failures = 0;
  for (;; ++failures) {
    REQUIRE(failures < 1000);
    fd::ErrorCode code{};
    until_failure = failures;
    try {
      fd::Gguf::parse(bytes);
    } catch (const fd::Error& e) {
      code = e.code();
    }
    if (until_failure != kNever) break;  // it was not reached: parsing needs no more than that
    if (code != fd::ErrorCode::kOutOfMemory) FAIL("allocation " << failures);
  }
  until_failure = kNever;
  CHECK(failures > 5);
}
