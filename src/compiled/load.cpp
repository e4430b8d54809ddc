// load() for the backend Cpu, with the loaders of all families, which units that load a model need not compile again.
#include <foredraft/models.hpp>

namespace foredraft::inline v0 {

template Model<Cpu> detail::load(Cpu& backend, const Gguf& file, const LoadOptions& options);

}  // namespace foredraft::inline v0
