// expect: Remote<const float>
#include "concepts/remote_pointer.hpp"

#ifdef FOREDRAFT_CONTROL
using Pointer = const float*;
#else
using Pointer = archetype::Remote<const float>;
#endif

float read(Pointer weight) { return *weight; }
