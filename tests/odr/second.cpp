#include "shared.hpp"

FunctionPointer seen_by_second() { return &foredraft::name_of; }
