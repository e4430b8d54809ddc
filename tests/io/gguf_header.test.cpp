#include <foredraft/io/gguf_header.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/gguf_samples.hpp"
#include "support/catch.hpp"

// Bad files by hand, then every truncation and every change of one byte of a small good file.

namespace fd = foredraft;
using fd::ErrorCode;
using fd::GgufType;
using fd::TensorType;
using samples::RawBytes;

namespace {

constexpr std::uint64_t kMinusOne = UINT64_MAX;

/// The file must be refused with this code, and the message must name what is wrong.
void check_refused(const RawBytes& file, ErrorCode code, std::vector<std::string_view> named) {
  try {
    fd::Gguf::parse(file.data);
    FAIL("accepted");
  } catch (const fd::Error& e) {
    INFO(e.what());
    CHECK(e.code() == code);
    for (const std::string_view part : named) {
      INFO(part);
      CHECK(std::string_view(e.what()).find(part) != std::string_view::npos);
    }
  }
}

void check_corrupt(const RawBytes& file, std::vector<std::string_view> named) {
  check_refused(file, ErrorCode::kCorruptFile, std::move(named));
}

/// A file together with the bytes that it looks at.
struct Loaded {
  std::vector<std::byte> bytes;
  fd::Gguf gguf = fd::Gguf::parse(bytes);
  const fd::Gguf* operator->() const { return &gguf; }
};

Loaded check_loads(RawBytes file) {
  Loaded loaded{std::move(file.data)};
  samples::walk(loaded.gguf, loaded.bytes);
  return loaded;
}

/// A header that announces one entry, so that the case only puts the entry.
RawBytes one_entry() { return RawBytes{}.header(0, 1); }

/// One F32 tensor, its data behind it.
RawBytes one_tensor(std::vector<std::uint64_t> shape, TensorType type, std::uint64_t offset = 0,
                    std::size_t data = 64) {
  RawBytes file;
  file.header(1, 0).tensor("w", shape, type, offset).pad(32).fill(data);
  return file;
}

}  // namespace

TEST_CASE("header: magic number and version") {
  check_corrupt(RawBytes{}, {"magic number of 4 bytes at offset 0"});
  check_corrupt(RawBytes{}.put_letters("GGUX").fill(40), {"\"GGUX\"", "GGUF"});
  check_corrupt(RawBytes{}.put_letters("version https://git-lfs.github.com/spec/v1"),
                {"\"vers\"", "Git LFS"});
  check_corrupt(RawBytes{}.header(0, 0, 0), {"version 0", "2 or 3"});
  check_refused(RawBytes{}.header(0, 0, 1), ErrorCode::kUnsupportedModel, {"version 1", "2 or 3"});
  check_refused(RawBytes{}.header(0, 0, 4), ErrorCode::kUnsupportedModel, {"version 4", "2 or 3"});
  check_refused(RawBytes{}.header(0, 0, 0x03000000), ErrorCode::kUnsupportedModel, {"big-endian"});
  check_refused(RawBytes{}.header(0, 0, 0x02000000), ErrorCode::kUnsupportedModel, {"big-endian"});
}

TEST_CASE("header: counts") {
  check_corrupt(RawBytes{}.header(kMinusOne, 0), {"18446744073709551615 tensors", "at most 0"});
  check_corrupt(RawBytes{}.header(0, kMinusOne),
                {"18446744073709551615 metadata entries", "at most 0"});
  // One more than fits by the least size of an entry.
  check_corrupt(RawBytes{}.header(5, 0).fill(100), {"5 tensors at offset 24", "at most 4"});
  check_corrupt(RawBytes{}.header(0, 5).fill(69), {"5 metadata entries", "at most 4"});
  // Count times size of an entry would wrap to something small.
  check_corrupt(RawBytes{}.header(0, (kMinusOne / 14) + 2).fill(64), {"metadata entries"});
}

TEST_CASE("header: an empty file of both versions loads") {
  for (const std::uint32_t version : {2u, 3u}) {
    const auto gguf = check_loads(RawBytes{}.header(0, 0, version));
    CHECK(gguf->version() == version);
    CHECK(gguf->alignment() == 32);
    CHECK(gguf->metadata().empty());
    CHECK(gguf->tensors().empty());
  }
}

TEST_CASE("metadata: keys") {
  check_corrupt(one_entry().put(kMinusOne).fill(20),
                {"metadata entry 0", "key of 18446744073709551615 bytes"});
  check_corrupt(one_entry().put(std::uint64_t{1} << 62).fill(20),
                {"metadata entry 0", "offset 32"});
  check_corrupt(one_entry().entry("", GgufType::kU32).put(1u),
                {"metadata entry 0", "key of 0 bytes"});
  check_corrupt(one_entry().entry(std::string(65536, 'k'), GgufType::kU32).put(1u),
                {"key of 65536 bytes", "1 to 65535"});
  check_loads(one_entry().entry(std::string(65535, 'k'), GgufType::kU32).put(1u));

  RawBytes twice;
  twice.header(0, 3);
  for (const char* key : {"same", "other", "same"}) twice.entry(key, GgufType::kU32).put(1u);
  check_corrupt(twice, {"two keys called \"same\""});

  // A key cannot write control sequences into a terminal, nor fill it.
  const std::string hostile = "\x1b[2J" + std::string(5000, 'x');
  try {
    fd::Gguf::parse(one_entry().entry(hostile, static_cast<GgufType>(99)).fill(8).data);
    FAIL("accepted");
  } catch (const fd::Error& e) {
    const std::string_view text = e.what();
    CHECK(text.find('\x1b') == text.npos);
    CHECK(text.find("\\x1B[2J") != text.npos);
    CHECK(text.size() < 400);
  }
}

TEST_CASE("metadata: types and values") {
  for (const std::uint32_t type : {13u, 14u, 0x80000000u, 0xffffffffu}) {
    check_corrupt(one_entry().entry("k", static_cast<GgufType>(type)).fill(8),
                  {"key \"k\"", "type " + std::to_string(type)});
  }
  check_corrupt(one_entry().entry("k", GgufType::kU64).put(1u),
                {"key \"k\"", "offset 37", "4 bytes left"});
  check_corrupt(one_entry().entry("k", GgufType::kBool).put(std::uint8_t{2}),
                {"key \"k\"", "bool of value 2"});
  check_corrupt(one_entry().entry("k", GgufType::kString).put(kMinusOne),
                {"key \"k\"", "string of 18446744073709551615 bytes at offset 45"});
  check_corrupt(one_entry().entry("k", GgufType::kString).put(std::uint64_t{5}).put_letters("four"),
                {"key \"k\"", "string of 5 bytes", "4 bytes"});
}

TEST_CASE("metadata: arrays") {
  check_corrupt(one_entry().array("k", static_cast<GgufType>(13), 1).fill(64),
                {"key \"k\"", "type of elements 13"});
  // Hundreds of levels of arrays in arrays: refused at the second.
  RawBytes nested = one_entry().entry("k", GgufType::kArray);
  for (int i = 0; i < 500; ++i) nested.put(GgufType::kArray).put(std::uint64_t{1});
  check_refused(nested.put(GgufType::kU8).put(std::uint64_t{0}), ErrorCode::kUnsupportedModel,
                {"key \"k\"", "array of arrays"});
  // A length of 2^63 in a file of few bytes; lengths whose product with the size wraps.
  for (const std::uint64_t count :
       {std::uint64_t{1} << 63, std::uint64_t{1} << 62, kMinusOne, kMinusOne / 4 + 2}) {
    for (const auto type : {GgufType::kU8, GgufType::kF32, GgufType::kString, GgufType::kF64}) {
      check_corrupt(one_entry().array("k", type, count).fill(8),
                    {"key \"k\"", std::to_string(count) + " elements"});
    }
  }
  check_corrupt(one_entry().array("k", GgufType::kF32, 3).fill(11),
                {"key \"k\"", "3 elements", "at most 2"});
  check_corrupt(one_entry().array("k", GgufType::kString, 2).put_string("ok").put(kMinusOne),
                {"key \"k\"", "string of 18446744073709551615"});
  check_corrupt(
      one_entry().array("k", GgufType::kBool, 2).put(std::uint8_t{0}).put(std::uint8_t{255}),
      {"key \"k\"", "bool of value 255"});
  const auto gguf = check_loads(one_entry().array("k", GgufType::kString, 0));
  CHECK(gguf->find("k")->count == 0);
}

TEST_CASE("metadata: alignment") {
  const auto with_alignment = [](std::uint32_t alignment) {
    return one_entry().entry("general.alignment", GgufType::kU32).put(alignment);
  };
  for (const std::uint32_t bad : {0u, 13u, 33u, 0x80000000u, 1u << 21, 0xffffffffu}) {
    check_corrupt(with_alignment(bad),
                  {"general.alignment", "u32 " + std::to_string(bad), "power of two"});
  }
  check_corrupt(one_entry().entry("general.alignment", GgufType::kI32).put(32),
                {"general.alignment", "i32 32"});
  check_corrupt(one_entry().entry("general.alignment", GgufType::kString).put_string("32"),
                {"general.alignment", "string"});
  check_corrupt(one_entry().array("general.alignment", GgufType::kU32, 1).put(32u),
                {"general.alignment", "array of 1 u32"});
  for (const std::uint32_t good : {1u, 2u, 4096u, 1u << 20}) {
    CHECK(check_loads(with_alignment(good))->alignment() == good);
  }
}

TEST_CASE("tensors: names") {
  check_corrupt(RawBytes{}.header(1, 0).put(kMinusOne).fill(30),
                {"tensor 0", "name of 18446744073709551615 bytes"});
  check_corrupt(RawBytes{}.header(1, 0).tensor("", {1}, TensorType::kF32, 0).fill(64),
                {"tensor 0", "name of 0 bytes"});
  check_corrupt(
      RawBytes{}.header(1, 0).tensor(std::string(65, 'n'), {1}, TensorType::kF32, 0).fill(64),
      {"tensor 0", "name of 65 bytes", "1 to 64"});
  RawBytes twice;
  twice.header(2, 0)
      .tensor("w", {8}, TensorType::kF32, 0)
      .tensor("w", {8}, TensorType::kF32, 32)
      .pad(32)
      .fill(64);
  check_corrupt(twice, {"two tensors called \"w\""});
}

TEST_CASE("tensors: shapes") {
  for (const std::uint32_t rank : {5u, 9u, 0x80000000u, 0xffffffffu}) {
    RawBytes file;
    file.header(1, 0).put_string("w").put(rank).fill(200);
    check_corrupt(file, {"tensor \"w\"", std::to_string(rank) + " dimensions", "at most 4"});
  }
  check_corrupt(one_tensor({kMinusOne}, TensorType::kF32),
                {"tensor \"w\"", "18446744073709551615"});
  // Each dimension is plausible, the product is not; also in the types whose size wraps to
  // something small.
  const std::uint64_t large = 4 * std::uint64_t{0x7fffffff};
  check_corrupt(one_tensor({large, large, large, large}, TensorType::kF32),
                {"tensor \"w\"", "2^63"});
  check_corrupt(one_tensor({0x7fffffffffffffffu, 2, 1, 1}, TensorType::kF32),
                {"tensor \"w\"", "2^63"});
  check_corrupt(one_tensor({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, TensorType::kF32),
                {"tensor \"w\""});
  check_corrupt(one_tensor({std::uint64_t{1} << 61}, TensorType::kF32),
                {"tensor \"w\"", "bytes of data"});
  check_corrupt(one_tensor({std::uint64_t{1} << 62}, TensorType::kF32),
                {"tensor \"w\"", "below 2^64"});
  // A size just below 2^64, which padding would wrap to 0.
  check_corrupt(one_tensor({(std::uint64_t{1} << 62) - 1}, TensorType::kF32),
                {"tensor \"w\"", "18446744073709551612"});
  check_corrupt(one_tensor({(std::uint64_t{1} << 62) + 32, 2}, TensorType::kQ8_0),
                {"tensor \"w\""});
  check_corrupt(one_tensor({31}, TensorType::kQ8_0),
                {"tensor \"w\"", "rows of 31 values in Q8_0", "multiple of 32"});

  CHECK(check_loads(one_tensor({0}, TensorType::kF32))->tensors()[0].data.empty());
  CHECK(check_loads(one_tensor({}, TensorType::kF32))->tensors()[0].data.size() == 4);
  CHECK(check_loads(one_tensor({2, 2, 2, 2}, TensorType::kF32))->tensors()[0].data.size() == 64);
}

TEST_CASE("tensors: two whose sizes add up to almost nothing") {
  // Sum of sizes, and sum of size and overhead, wrap in 64 bits.
  const std::uint64_t half = 0x7fffffffffffffc0u;
  RawBytes file;
  file.header(2, 0)
      .tensor("a", {half / 2}, TensorType::kF16, 0)
      .tensor("b", {half / 2}, TensorType::kF16, half);
  check_corrupt(file.pad(32).fill(64), {"tensor \"a\"", std::to_string(half)});
}

TEST_CASE("tensors: types that are not ours open, so that they can be shown") {
  for (const std::uint32_t number : {4u, 10u, 16u, 99u, 0xffffffffu}) {
    const auto gguf = check_loads(one_tensor({32, 2}, static_cast<TensorType>(number)));
    const auto& tensor = gguf->tensors()[0];
    CHECK(tensor.type_number == number);
    CHECK(tensor.data.empty());
    CHECK_THROWS_AS(gguf->view(tensor), fd::Error);
  }
  // Their size is unknown, so the next tensor may begin anywhere behind them, aligned.
  const auto unknown = static_cast<TensorType>(10);
  const auto between = [&](std::uint64_t second, std::uint64_t third) {
    RawBytes file;
    file.header(3, 0).tensor("a", {8}, TensorType::kF32, 0).tensor("b", {256}, unknown, second);
    return file.tensor("c", {8}, TensorType::kF32, third).pad(32).fill(160);
  };
  CHECK(check_loads(between(32, 128))->tensors()[2].data.size() == 32);
  check_corrupt(between(32, 0), {"tensor \"c\"", "offset 0"});
  check_corrupt(between(64, 128), {"tensor \"b\"", "offset 64", "offset 32"});
  check_corrupt(between(32, 100), {"tensor \"c\"", "offset 100"});  // not aligned
  check_corrupt(between(32, 129), {"tensor \"c\"", "offset 129"});
  check_corrupt(between(32, 160), {"tensor \"c\"", "offset 160"});
}

TEST_CASE("tensors: offsets") {
  check_corrupt(one_tensor({8}, TensorType::kF32, kMinusOne),
                {"tensor \"w\"", "offset 18446744073709551615"});
  check_corrupt(one_tensor({8}, TensorType::kF32, kMinusOne - 31),
                {"tensor \"w\"", "offset 18446744073709551584"});
  check_corrupt(one_tensor({8}, TensorType::kF32, 8), {"tensor \"w\"", "offset 8"});
  check_corrupt(one_tensor({8}, TensorType::kF32, 32), {"tensor \"w\"", "offset 32", "offset 0"});

  const auto pair = [](std::uint64_t first, std::uint64_t second, std::size_t data) {
    RawBytes file;
    file.header(2, 0)
        .tensor("a", {9}, TensorType::kF32, first)
        .tensor("b", {8}, TensorType::kF32, second);
    return file.pad(32).fill(data);
  };
  CHECK(check_loads(pair(0, 64, 96))->tensors()[1].offset == 64);
  check_corrupt(pair(0, 0, 96), {"tensor \"b\"", "offset 0", "offset 64"});    // overlap
  check_corrupt(pair(0, 32, 96), {"tensor \"b\"", "offset 32", "offset 64"});  // partial overlap
  check_corrupt(pair(0, 96, 128), {"tensor \"b\"", "offset 96"});              // hole
  check_corrupt(pair(32, 0, 96), {"tensor \"a\"", "offset 32"});               // out of order
  check_corrupt(pair(0, 64, 95), {"tensor \"b\"", "32 bytes of data at offset 64", "95 bytes"});
  check_loads(pair(0, 64, 97));  // bytes behind the end are nobody's
}

TEST_CASE("tensors: alignment of the data section") {
  // Laid out for 64, announced as 32: the second tensor shows it, whichever way round.
  const auto file = [](std::uint32_t announced, std::uint64_t second, std::size_t begin) {
    RawBytes raw;
    raw.header(2, 1).entry("general.alignment", GgufType::kU32).put(announced);
    raw.tensor("a", {8}, TensorType::kF32, 0).tensor("b", {8}, TensorType::kF32, second);
    return raw.pad(begin).fill(128);
  };
  check_loads(file(64, 64, 64));
  check_corrupt(file(32, 64, 64), {"tensor \"b\"", "offset 64", "offset 32"});
  check_corrupt(file(64, 32, 32), {"tensor \"b\"", "offset 32", "offset 64"});
  check_corrupt(file(13, 32, 32), {"general.alignment"});

  // Alignment 1 leaves no gap at all.
  const auto tight = check_loads(file(1, 32, 1));
  CHECK(tight->tensors()[1].data.data() == tight->tensors()[0].data.data() + 32);
}

TEST_CASE("tensors: a file that ends before its data") {
  RawBytes file;
  file.header(1, 0).tensor("w", {0}, TensorType::kF32, 0);
  check_corrupt(file, {"before the tensor data", std::to_string(file.data.size())});
  check_corrupt(one_tensor({16}, TensorType::kF32, 0, 63),
                {"tensor \"w\"", "64 bytes of data", "63 bytes"});
  check_corrupt(one_tensor({16}, TensorType::kF32, 0, 0),
                {"tensor \"w\"", "0 bytes of data in the file"});
}

TEST_CASE("every truncation of a file is refused") {
  const auto whole = samples::small_file();
  samples::walk(fd::Gguf::parse(whole), whole);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A copy of exactly that size, so that a sanitizer sees a read behind it.
    const std::vector<std::byte> part(whole.begin(),
                                      whole.begin() + static_cast<std::ptrdiff_t>(size));
    try {
      fd::Gguf::parse(part);
      FAIL("accepted the first " << size << " bytes");
    } catch (const fd::Error& e) {
      if (e.code() != ErrorCode::kCorruptFile) FAIL(e.what());
    }
  }
}

TEST_CASE("every change of one byte is refused or gives a file that agrees with itself") {
  const auto whole = samples::small_file();
  int refused = 0;
  int accepted = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const int old = std::to_integer<int>(whole[at]);
    for (const int value : {old ^ 0xff, old ^ 0x80, old ^ 0x01, old + 1, old - 1, 0x00, 0x7f}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] = static_cast<std::byte>(value & 0xff);
      try {
        samples::walk(fd::Gguf::parse(bytes), bytes);
        ++accepted;
      } catch (const fd::Error& e) {
        const bool expected =
            e.code() == ErrorCode::kCorruptFile || e.code() == ErrorCode::kUnsupportedModel;
        if (!expected) FAIL("byte " << at << " = " << value << ": " << e.what());
        ++refused;
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(accepted > 1000);  // values and data may be anything
}
