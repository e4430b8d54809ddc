// What a product of a GPU takes of it and keeps on its way, by format of weights and rows of a pass: constants of the
// kernels, as JSON. bench/gpu/plan.py puts them beside what the compiler made of the kernels.

#include <cstdlib>
#include <iostream>
#include <string>
#include <typeinfo>

#include <cxxabi.h>

#include <foredraft/backend/cuda/product.hpp>
#include <nlohmann/json.hpp>

namespace {

namespace cuda = foredraft::cuda;
using Json = nlohmann::ordered_json;

template <typename K>
std::string name_of() {
  char* const name = abi::__cxa_demangle(typeid(K).name(), nullptr, nullptr, nullptr);
  std::string copy = name;
  std::free(name);
  return copy;
}

/// As Worker::product chooses kernels.
template <cuda::WeightFormat F, int kTiles, int kColumns, bool kOneRow = false>
void add(Json& out, const char* format, const char* rows) {
  using K = cuda::Product<F, kTiles, kColumns, kOneRow>;
  using Tiles = cuda::TileProduct<F, kTiles, kColumns, kOneRow>;
  out.push_back({{"kernel", name_of<K>()},
                 {"format", format},
                 {"rows", rows},
                 {"threads", K::kThreads},
                 {"shared_bytes", K::shared()},
                 {"bytes_on_their_way", K::kWarps * Tiles::kBytesAhead}});
}

template <cuda::WeightFormat F>
void add_all(Json& out, const char* format) {
  add<F, 1, 1, true>(out, format, "1");
  add<F, 1, 1>(out, format, "2 to 8");
  add<F, 1, 2>(out, format, "9 to 16");
  if constexpr (cuda::TileProduct<F, 1, 4>::kRowsInRing || cuda::kShape<F>.biased) {
    add<F, 1, 4>(out, format, "17 to 64");
  } else {
    add<F, 2, 4>(out, format, "17 to 32");
    add<F, 1, 8>(out, format, "33 to 64");
  }
}

}  // namespace

int main() {
  using enum cuda::WeightFormat;
  Json out = Json::array();
  add_all<kBF16>(out, "BF16");
  add_all<kF16>(out, "F16");
  add_all<kF32>(out, "F32");
  add_all<kQ8>(out, "Q8_0, Q5_0");
  add_all<kQ4>(out, "Q4_0");
  add_all<kQ4Biased>(out, "Q4_1, Q4_K");
  add_all<kQ8Biased>(out, "Q5_1, Q5_K");
  add_all<kQ8Narrow>(out, "Q6_K");
  std::cout << out.dump(1) << '\n';
}
