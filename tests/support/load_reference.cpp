#include "support/load_reference.hpp"

namespace foredraft::inline v0 {

template Model<Reference> detail::load(Reference& backend, const Gguf& file,
                                       const LoadOptions& options);

}  // namespace foredraft::inline v0
