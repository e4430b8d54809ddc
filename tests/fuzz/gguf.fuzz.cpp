// Fuzzing the GGUF reader: whatever the bytes are, they are refused with foredraft::Error or give a
// file that agrees with itself. Anything else ends the program.
//
// With libFuzzer:  clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined
// -DFOREDRAFT_LIBFUZZER
//                    -I include -I tests tests/fuzz/gguf.fuzz.cpp -o gguf.fuzz && ./gguf.fuzz
//                    corpus/
// Without:         g++ -std=c++20 -g -O1 -fsanitize=address,undefined
//                    -I include -I tests tests/fuzz/gguf.fuzz.cpp -o gguf.fuzz && ./gguf.fuzz
//                    100000 1
//   ./gguf.fuzz [N [SEED]]  runs N seeded mutations of small files (20000, 1)
//   ./gguf.fuzz FILE...     runs each file once, to look at what a fuzzer has found
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/gguf_samples.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    samples::walk(foredraft::Gguf::parse(bytes), bytes);
  } catch (const foredraft::Error&) {
    // Refused, as it should be. samples::walk throws std::logic_error, which nothing catches.
  }
  return 0;
}

#ifndef FOREDRAFT_LIBFUZZER

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<std::byte>;

/// Numbers at which arithmetic tends to turn over.
constexpr std::uint64_t kInteresting[] = {0,
                                          1,
                                          2,
                                          4,
                                          5,
                                          13,
                                          31,
                                          32,
                                          33,
                                          63,
                                          64,
                                          0x7f,
                                          0x80,
                                          0xff,
                                          0x7fff,
                                          0xffff,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x100000000,
                                          0x3fffffffffffffff,
                                          0x4000000000000000,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xffffffffffffffe0,
                                          0xffffffffffffffff};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(random_() % std::max<std::size_t>(n, 1));
  }

  void mutate(Bytes& bytes) {
    for (std::size_t i = 1 + below(4); i > 0 && !bytes.empty(); --i) {
      const std::size_t at = below(bytes.size());
      const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      switch (below(6)) {
        case 0: bytes[at] ^= static_cast<std::byte>(1u << below(8)); break;
        case 1: bytes[at] = static_cast<std::byte>(random_()); break;
        case 2: {  // a number, as wide as a count or as a type
          const std::uint64_t number = kInteresting[below(std::size(kInteresting))];
          std::memcpy(&*place, &number,
                      std::min(below(2) != 0 ? sizeof(number) : 4, bytes.size() - at));
          break;
        }
        case 3: bytes.resize(at); break;
        case 4: bytes.insert(place, below(16), static_cast<std::byte>(random_())); break;
        case 5: {  // a part of the file a second time
          const Bytes part(place, place + static_cast<std::ptrdiff_t>(
                                              below(std::min<std::size_t>(bytes.size() - at, 64))));
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())),
                       part.begin(), part.end());
          break;
        }
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

void run(const Bytes& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], &end, 10) : 20'000;
  if (end != nullptr && *end != '\0') {
    for (int i = 1; i < argc; ++i) {
      std::ifstream in(argv[i], std::ios::binary);
      if (!in) {
        std::cerr << argv[i] << ": cannot be opened\n";
        return 2;
      }
      const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      const auto bytes = std::as_bytes(std::span(text));
      run({bytes.begin(), bytes.end()});
    }
    return 0;
  }
  Mutator mutator(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  const Bytes original = samples::small_file();
  Bytes bytes = original;
  std::uint64_t opened = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    // A file that still opens is changed further, so that changes meet; another is given up.
    Bytes next = bytes;
    mutator.mutate(next);
    run(next);
    bool opens = true;
    try {
      foredraft::Gguf::parse(next);
    } catch (const foredraft::Error&) {
      opens = false;
    }
    opened += opens;
    bytes = opens && mutator.below(8) != 0 ? next : original;
  }
  std::cout << count << " files, " << opened << " of them opened\n";
  return 0;
}

#endif
