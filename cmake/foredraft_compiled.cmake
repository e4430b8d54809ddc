# foredraft::compiled: the kernels of every instruction set of the processor family, one unit each. A program that
# links it picks the best one that the machine runs, and compiles no kernels of its own.

# A static library of kernels. The flags of a unit must win over those of the build (-march=native), so they are the
# last; and kernels are optimised in a Debug build too, where unoptimised helpers would also leave them as functions.
function(foredraft_add_kernels target)
  set(folder ${PROJECT_SOURCE_DIR}/src/compiled)
  add_library(${target} STATIC ${folder}/kernels_portable.cpp)
  set(baseline "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(baseline -march=x86-64)
    set(avx2 -march=x86-64-v3)
    set(avx512 -march=x86-64-v4)
    set(avx512_vnni -march=x86-64-v4 -mavx512vnni)
    set(amx -march=x86-64-v4 -mavx512vnni -mamx-tile -mamx-int8)
    foreach(set avx2 avx512 avx512_vnni amx)
      target_sources(${target} PRIVATE ${folder}/kernels_${set}.cpp)
      set_source_files_properties(${folder}/kernels_${set}.cpp PROPERTIES COMPILE_OPTIONS "-O3;${${set}}")
    endforeach()
  endif()
  set_source_files_properties(${folder}/kernels_portable.cpp PROPERTIES COMPILE_OPTIONS "-O3;${baseline}")
  target_link_libraries(${target} PUBLIC foredraft)
  target_compile_definitions(${target} PUBLIC FOREDRAFT_COMPILED)
  foredraft_add_warnings(${target})
endfunction()

foredraft_add_kernels(foredraft_compiled)
add_library(foredraft::compiled ALIAS foredraft_compiled)
set_target_properties(foredraft_compiled PROPERTIES EXPORT_NAME compiled)
