// A program without foredraft::compiled, whose own flags allow a wide instruction set. The compiler
// only reads it: the machine at hand need not execute it.
#include <foredraft/backend/cpu/cpu.hpp>

namespace fd = foredraft;

static_assert(fd::cpu::kBuildIsa == fd::cpu::Isa::kAvx512Vnni);

std::size_t held() { return fd::cpu::available_tables().size(); }
fd::cpu::Isa taken() { return fd::Cpu().isa(); }
