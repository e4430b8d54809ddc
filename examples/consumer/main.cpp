// A project of its own that uses foredraft; see CMakeLists.txt for the ways to find it.
#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/version.hpp>
#include <iostream>

namespace fd = foredraft;

int main() {
  const fd::Node node{.token = 42};
  std::cout << "foredraft " << FOREDRAFT_VERSION_MAJOR << '.' << FOREDRAFT_VERSION_MINOR << '.'
            << FOREDRAFT_VERSION_PATCH << ", a node with token " << node.token << '\n';
  try {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "no token", "at least one");
  } catch (const fd::Error& error) {
    std::cout << error.what() << '\n';
  }
}
