#pragma once

/// Semantic version of foredraft. The inline namespace `foredraft::v0` carries the major version,
/// so two major versions can live in one program.
#define FOREDRAFT_VERSION_MAJOR 0
#define FOREDRAFT_VERSION_MINOR 1
#define FOREDRAFT_VERSION_PATCH 0
