// expect: this drafter has a controller
#include <foredraft/foredraft.hpp>

#ifdef FOREDRAFT_CONTROL
using Held = foredraft::PromptLookup;
#else
using Held = foredraft::Controlled<foredraft::PromptLookup>;
#endif

foredraft::AnyDrafter<> hold() { return Held{foredraft::PromptLookup{}}; }
