#pragma once

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/model/load.hpp>

namespace foredraft::inline v0 {

// In load_reference.cpp, compiled once for all tests.
extern template Model<Reference> detail::load(Reference& backend, const Gguf& file,
                                              const LoadOptions& options);

}  // namespace foredraft::inline v0
