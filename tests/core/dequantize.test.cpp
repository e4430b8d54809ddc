#include <foredraft/core/dequantize.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"

namespace fd = foredraft;

namespace {

std::byte hex_byte(const std::string& text, std::size_t i) {
  return static_cast<std::byte>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
}

}  // namespace

TEST_CASE("every format expands to the values of another implementation") {
  // Written by make_dequantize_golden.py; all types of core/tensor.hpp must be in it.
  std::ifstream file(test_file("core/data/dequantize.golden"));
  REQUIRE(file);
  int n_types = 0;
  std::string header, bytes_hex, floats_hex;
  while (std::getline(file, header) && std::getline(file, bytes_hex) &&
         std::getline(file, floats_hex)) {
    std::istringstream fields(header);
    std::uint32_t number = 0;
    std::string name;
    std::size_t n = 0;
    fields >> number >> name >> n;
    const auto type = static_cast<fd::TensorType>(number);
    CAPTURE(name);
    REQUIRE(fd::layout_of(type));
    CHECK(fd::layout_of(type)->name == name);
    REQUIRE(fd::row_bytes(type, n) == bytes_hex.size() / 2);

    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < bytes_hex.size() / 2; ++i) bytes.push_back(hex_byte(bytes_hex, i));
    std::vector<float> values(n);
    fd::dequantize_row(type, bytes.data(), n, values.data());

    std::istringstream floats(floats_hex);
    std::size_t n_wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t bits = 0;
      floats >> std::hex >> bits;
      // As numbers: a zero may have either sign.
      if (values[i] != std::bit_cast<float>(bits)) ++n_wrong;
    }
    CHECK(floats);
    CHECK(n_wrong == 0);
    ++n_types;
  }
  CHECK(n_types == 11);
}

TEST_CASE("a block by hand") {
  // Q4_0: d = 0.5, byte i is 16 * (15 - i) + i: element i has code i, element i + 16 code 15 - i.
  std::vector<std::byte> q4_0{std::byte{0x00}, std::byte{0x38}};
  for (int i = 0; i < 16; ++i) q4_0.push_back(static_cast<std::byte>(16 * (15 - i) + i));
  float values[32];
  fd::dequantize_row(fd::TensorType::kQ4_0, q4_0.data(), 32, values);
  for (int i = 0; i < 16; ++i) {
    CHECK(values[i] == 0.5f * static_cast<float>(i - 8));
    CHECK(values[i + 16] == 0.5f * static_cast<float>(7 - i));
  }
}

TEST_CASE("decoded blocks keep codes, scales and offsets apart") {
  fd::QuantBlock block;
  std::vector<std::byte> q8_0(34, std::byte{0x80});  // -128
  fd::decode_block(fd::TensorType::kQ8_0, q8_0.data(), block);
  CHECK(block.code[0] == 0);
  CHECK(block.d == 0x8080);
  CHECK(fd::quant_geometry(fd::TensorType::kQ8_0).offset == 128);

  std::vector<std::byte> q4_k(144, std::byte{0xff});
  fd::decode_block(fd::TensorType::kQ4_K, q4_k.data(), block);
  for (int s = 0; s < 8; ++s) {
    CHECK(block.scale[s] == 63);
    CHECK(block.min[s] == 63);
  }
  CHECK(block.code[255] == 15);
  CHECK(fd::quant_geometry(fd::TensorType::kF16).elements == 0);
}
