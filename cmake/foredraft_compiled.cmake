# foredraft::compiled: the kernels of every instruction set of the processor family, one unit each. A program that
# links it picks the best one that the machine runs, and compiles no kernels of its own.

# A static library of kernels. The flags of a unit must win over those of the build (-march=native), so they are the
# last; and kernels are optimised in a Debug build too, where unoptimised helpers would also leave them as functions.
function(foredraft_add_kernels target)
  set(folder ${PROJECT_SOURCE_DIR}/src/compiled)
  add_library(${target} STATIC)
  foreach(set IN LISTS foredraft_instruction_sets foredraft_extensions)
    target_sources(${target} PRIVATE ${folder}/kernels_${set}.cpp)
    set_source_files_properties(${folder}/kernels_${set}.cpp PROPERTIES
      COMPILE_OPTIONS "-O3;${foredraft_flags_${set}}")
  endforeach()
  target_link_libraries(${target} PUBLIC foredraft)
  target_compile_definitions(${target} PUBLIC FOREDRAFT_COMPILED)
  foredraft_add_warnings(${target})
endfunction()

foredraft_add_kernels(foredraft_compiled)
add_library(foredraft::compiled ALIAS foredraft_compiled)
set_target_properties(foredraft_compiled PROPERTIES EXPORT_NAME compiled)
