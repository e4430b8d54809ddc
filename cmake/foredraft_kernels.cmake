# foredraft_add_kernels(<target>): a static library with the CPU kernels of every instruction set of the processor
# family, one unit each. A program that links it picks the best one that the machine runs, and compiles no kernels of
# its own. Where foredraft::io was found before, the library also has the loader of models, for units that include
# foredraft/models.hpp, and brings foredraft::io with it. It compiles for about a minute.
#
# With FOREDRAFT_NARROW_KERNELS it holds portable and avx2 alone, in a form that sanitizers can be used with: what looks
# at every pointer before it is read would make a unit compile for ten minutes, and the address sanitizer finds the same.
#
# It works the same from a checkout (add_subdirectory), from an installation and from the Conan package: in all of them
# this file lies beside the list of instruction sets, and the units in ../src/compiled.
function(foredraft_add_kernels target)
  # Read here, not where this file is included: the lists are then the function's, whoever calls it.
  include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/foredraft_instruction_sets.cmake)
  # Where a loop begins in a line of the instruction cache must not depend on what is linked before it: attention was
  # slower in one program than in another.
  set(optimised -O3 -falign-functions=64 -falign-loops=32)
  set(optimised_loader -O2)
  if(FOREDRAFT_NARROW_KERNELS)
    list(FILTER foredraft_instruction_sets INCLUDE REGEX "^(portable|avx2)$")
    set(foredraft_extensions)
    set(optimised -O1 -fno-sanitize=null,alignment,object-size,pointer-overflow)
    set(optimised_loader -O1)
  endif()
  cmake_path(GET CMAKE_CURRENT_FUNCTION_LIST_DIR PARENT_PATH folder)
  add_library(${target} STATIC)
  foreach(set IN LISTS foredraft_instruction_sets foredraft_extensions)
    set(unit ${folder}/src/compiled/kernels_${set}.cpp)
    target_sources(${target} PRIVATE ${unit})
    # The flags of a unit must win over those of the build (-march=native), so they are the last; and kernels are
    # optimised in a Debug build too, where unoptimised helpers would also leave them as functions.
    set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS "${optimised};${foredraft_flags_${set}}")
  endforeach()
  target_link_libraries(${target} PUBLIC foredraft::foredraft)
  if(TARGET foredraft::io)
    target_sources(${target} PRIVATE ${folder}/src/compiled/load.cpp)
    # It packs weights; and like that of the kernels, its code must run on every machine.
    set_source_files_properties(${folder}/src/compiled/load.cpp PROPERTIES
      COMPILE_OPTIONS "${optimised_loader};${foredraft_flags_portable}")
    target_link_libraries(${target} PUBLIC foredraft::io)
    target_compile_definitions(${target} PUBLIC FOREDRAFT_COMPILED_LOAD)
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)  # Conan's target does not ask for it
  target_compile_definitions(${target} PUBLIC FOREDRAFT_COMPILED
    $<$<BOOL:${FOREDRAFT_NARROW_KERNELS}>:FOREDRAFT_NARROW_KERNELS>)
endfunction()
