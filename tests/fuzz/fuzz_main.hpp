#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What all fuzz targets share. A target is one source file that includes this header and defines
/// run() and seeds(). It becomes
///  - with FOREDRAFT_LIBFUZZER and clang's -fsanitize=fuzzer, a libFuzzer program (run.sh);
///  - without, a program of its own for any compiler, which tries seeded mutations of the seeds. A
///    short run of it is a test.
namespace fuzz {

using Bytes = std::vector<std::byte>;

/// Try one input. Whatever is wrong ends the program: a sanitizer's report, or an exception.
/// @return whether the input was taken rather than refused; mutations then build upon it
bool run(std::span<const std::byte> input);

/// Inputs to begin with.
std::vector<Bytes> seeds();

/// Seeds for a target whose bytes are choices: zeros, which choose the usual everywhere, and noise.
inline std::vector<Bytes> noise(std::size_t count, std::size_t size) {
  std::mt19937 random(1);
  std::vector<Bytes> all(count, Bytes(size));
  for (std::size_t i = 1; i < count; ++i) {
    for (std::byte& byte : all[i]) byte = static_cast<std::byte>(random());
  }
  return all;
}

inline void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const Bytes& seed : seeds()) {
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary)
        .write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
  }
}

/// --seeds FOLDER, with which both kinds of program write their seeds.
inline bool wants_seeds(int argc, char** argv) {
  return argc == 3 && std::string_view(argv[1]) == "--seeds";
}

}  // namespace fuzz

/// Asked by AddressSanitizer alone: memory that cannot be had is an error like others, and no end of
/// the program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

#ifdef FOREDRAFT_LIBFUZZER

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (fuzz::wants_seeds(*argc, *argv)) {
    fuzz::write_seeds((*argv)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}

#else

namespace fuzz {

/// Numbers at which arithmetic tends to turn over.
inline constexpr std::uint64_t kInteresting[] = {
    0,          1,           2,          4,          5,          13,
    31,         32,          33,         63,         64,         0x7f,
    0x80,       0xff,        0x7fff,     0xffff,     0x7fffffff, 0x80000000,
    0xffffffff, 0x100000000, 1ull << 62, ~0ull >> 1, 1ull << 63, ~0ull - 0x1f,
    ~0ull};

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

/// run(), and where it throws, the input is left in a file for a second look.
inline bool run_or_keep(const Bytes& input, const std::string& file) {
  try {
    return run(input);
  } catch (const std::exception& e) {
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    std::cerr << "found: " << e.what() << "; the input is in " << file << '\n';
    std::exit(1);
  }
}

inline void run_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::cerr << path.string() << ": cannot be opened\n";
    std::exit(2);
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::cout << path.filename().string() << std::endl;  // seen even where the program dies of it
  run(std::as_bytes(std::span(text)));
}

/// Inputs that were taken are changed further, so that changes meet; others are given up.
inline void run_mutations(std::uint64_t count, std::uint64_t seed, const std::string& program) {
  const std::vector<Bytes> originals = seeds();
  for (const Bytes& original : originals) run_or_keep(original, program + ".found");
  Mutator mutator(seed);
  Bytes bytes = originals.front();
  std::uint64_t taken = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Bytes next = bytes;
    mutator.mutate(next);
    const bool goes_on = run_or_keep(next, program + ".found");
    taken += goes_on;
    bytes = goes_on && mutator.below(8) != 0 ? next : originals[mutator.below(originals.size())];
  }
  std::cout << count << " inputs, " << taken << " of them taken\n";
}

}  // namespace fuzz

/// PROGRAM [N [SEED]]       N seeded mutations of the seeds (1000, 1)
/// PROGRAM FILE|FOLDER...   each file once, and the files of each folder
/// PROGRAM --seeds FOLDER   writes the seeds
int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (fuzz::wants_seeds(argc, argv)) {
    fuzz::write_seeds(argv[2]);
    return 0;
  }
  char* end = nullptr;
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], &end, 10) : 1000;
  if (end == nullptr || *end == '\0') {
    fuzz::run_mutations(count, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1,
                        fs::path(argv[0]).filename().string());
    return 0;
  }
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      fuzz::run_file(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) fuzz::run_file(entry.path());
  }
  return 0;
}

#endif
