#pragma once

/// Models from files on a CPU, with all that foredraft.hpp has: link foredraft::io, and
/// foredraft::compiled for a run-time choice of the instruction set.

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/drafter/model_heterogeneous.hpp>
#include <foredraft/drafter/model_self.hpp>
#include <foredraft/drafter/model_tree_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/io/tokenizer_codec.hpp>
#include <foredraft/model/load.hpp>
#include <foredraft/model/model.hpp>
#include <foredraft/model/partial_model.hpp>

#if defined(FOREDRAFT_COMPILED_LOAD)
namespace foredraft::inline v0 {

// The library has it (src/compiled/load.cpp): the loaders of all families are much of what a small
// program would compile.
extern template Model<Cpu> detail::load(Cpu& backend, const Gguf& file, const LoadOptions& options);

}  // namespace foredraft::inline v0
#endif
