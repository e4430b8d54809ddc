#include <foredraft/io/byte_alphabet.hpp>
#include <set>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("bytes have the characters of GPT-2") {
  CHECK(fd::kByteAlphabet.write(static_cast<unsigned char>('A')) == "A");
  CHECK(fd::kByteAlphabet.write(" hi\n") == "\xC4\xA0hi\xC4\x8A");  // U+0120, U+010A
  CHECK(fd::kByteAlphabet.write("\xAD") == "\xC5\x83");             // U+0143, the last of the 68
  CHECK(fd::kByteAlphabet.write("\xFF") == "\xC3\xBF");             // itself
}

TEST_CASE("all bytes have different characters and come back") {
  std::set<std::string> characters;
  std::string all;
  for (unsigned byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    characters.insert(fd::kByteAlphabet.write(static_cast<unsigned char>(byte)));
  }
  CHECK(characters.size() == 256);
  CHECK(fd::kByteAlphabet.read(fd::kByteAlphabet.write(all)) == all);
}

TEST_CASE("what is not in the alphabet stays as it is") {
  CHECK(fd::kByteAlphabet.read("a b") == "a b");
  CHECK(fd::kByteAlphabet.read("\xE6\x97\xA5") == "\xE6\x97\xA5");
  CHECK(fd::kByteAlphabet.read("\xC5\x84") == "\xC5\x84");  // U+0144, one past the last
  CHECK(fd::kByteAlphabet.read("\xFFz\xC4") == "\xFFz\xC4");
}
