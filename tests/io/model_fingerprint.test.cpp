#include <foredraft/io/model_fingerprint.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

TEST_CASE("a model has one fingerprint, and another model another one") {
  const auto print = [](const std::vector<std::byte>& bytes) {
    return fd::model_fingerprint(fd::Gguf::parse(bytes));
  };
  TinyModel tiny;
  const auto bytes = tiny.file();
  CHECK(print(bytes) == print(tiny.file()));
  tiny.seed = 2;  // the same header, other weights
  CHECK(print(bytes) != print(tiny.file()));
  tiny.seed = 1;
  tiny.n_layers = 1;
  CHECK(print(bytes) != print(tiny.file()));
  // A change in the first page of any tensor shows.
  const fd::Gguf file = fd::Gguf::parse(bytes);
  for (const auto& tensor : file.tensors()) {
    auto changed = bytes;
    changed[fd::idx(tensor.data.data() - bytes.data())] ^= std::byte{1};
    CHECK(print(bytes) != print(changed));
  }
}
