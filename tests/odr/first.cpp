// Two translation units that include every header link into one program: nothing in a header is
// defined twice, and an inline function is one function in the whole program.
#include <cstdio>

#include "shared.hpp"

int main() {
  const FunctionPointer seen_by_first = &foredraft::name_of;
  if (seen_by_first != seen_by_second()) {
    std::puts("an inline function exists twice");
    return 1;
  }
  return 0;
}
