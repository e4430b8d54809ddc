// expect: this drafter proposes trees: hold it in AnyDrafter<Shape::kTree>
#include <foredraft/foredraft.hpp>

#include "support/oracle_drafter.hpp"

#ifdef FOREDRAFT_CONTROL
using Any = foredraft::AnyDrafter<foredraft::Shape::kTree>;
#else
using Any = foredraft::AnyDrafter<>;
#endif

Any hold() { return OracleDrafter{{}, 16, 0.0, 1}; }
