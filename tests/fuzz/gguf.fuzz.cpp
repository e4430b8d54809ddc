// Fuzzing the GGUF reader: whatever the bytes are, they are refused with foredraft::Error or give a
// file that agrees with itself.

#include <cstddef>
#include <span>
#include <vector>

#include "fuzz/fuzz_main.hpp"
#include "io/gguf_samples.hpp"

bool fuzz::run(std::span<const std::byte> input) {
  try {
    samples::walk(foredraft::Gguf::parse(input), input);
    return true;
  } catch (const foredraft::Error&) {
    return false;  // samples::walk throws std::logic_error, which nothing catches
  }
}

std::vector<fuzz::Bytes> fuzz::seeds() { return {samples::small_file()}; }
