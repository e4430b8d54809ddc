#pragma once

#include <cstddef>
#include <string_view>

#include <foredraft/constraint/grammar.hpp>
#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// Characters that a grammar may take alike: some of ASCII and, with `beyond`, all others.
struct CharacterKind {
  ByteSet ascii;
  bool beyond = false;

  /// Those that mean nothing inside a string of JSON.
  static CharacterKind plain_in_json() {
    CharacterKind kind;
    kind.beyond = true;
    for (std::size_t byte = 0x20; byte < 0x80; ++byte) kind.ascii.set(byte);
    kind.ascii.reset('"');
    kind.ascii.reset('\\');
    return kind;
  }

  struct Run {
    int characters = 0;
    std::size_t bytes = 0;
  };
  /// Characters of the kind that `text` begins with, `most` of them at most.
  Run run(std::string_view text, int most) const noexcept {
    Run run;
    while (run.characters < most) {
      const std::string_view rest = text.substr(run.bytes);
      const std::size_t length = valid_utf8_character(rest);
      if (length == 0 || !(length == 1 ? ascii[static_cast<unsigned char>(rest[0])] : beyond))
        break;
      run.bytes += length;
      ++run.characters;
    }
    return run;
  }

  friend bool operator==(const CharacterKind&, const CharacterKind&) = default;
};

}  // namespace foredraft::inline v0
