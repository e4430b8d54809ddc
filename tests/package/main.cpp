// Uses what a package must deliver: the headers, those of its dependencies, and a library to link.
#include <Eigen/Core>
#include <cstdio>
#include <foredraft/core/error.hpp>
#include <foredraft/io/gguf_writer.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/version.hpp>
#include <xsimd/xsimd.hpp>

int main() {
  char version[64] = {};
  pcre2_config(PCRE2_CONFIG_VERSION, version);
  foredraft::GgufWriter writer;
  writer.add("general.architecture", std::string("none"));
  const auto bytes = writer.bytes();
  if (foredraft::Gguf::parse(bytes).metadata().size() != 1) return 1;
  const foredraft::Error error(foredraft::ErrorCode::kIo, "nothing", "something");
  const Eigen::Vector2f sum = Eigen::Vector2f(1, 2) + Eigen::Vector2f(2, 1);
  std::printf("foredraft %d.%d.%d, xsimd %d.%d, PCRE2 %s: %s\n", FOREDRAFT_VERSION_MAJOR,
              FOREDRAFT_VERSION_MINOR, FOREDRAFT_VERSION_PATCH, XSIMD_VERSION_MAJOR,
              XSIMD_VERSION_MINOR, version, error.what());
  return sum.x() == 3.0f ? 0 : 1;
}
