// load() for the backend Cpu, with the loaders of all families: a unit that loads a model then compiles in two thirds of the
// time.
#include <foredraft/models.hpp>

namespace foredraft::inline v0 {

template Model<Cpu> detail::load(Cpu& backend, const Gguf& file, const LoadOptions& options);

}  // namespace foredraft::inline v0
