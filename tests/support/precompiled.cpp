// Nothing but what precompiled.hpp brings: CMake precompiles headers for a target, which needs a source.
