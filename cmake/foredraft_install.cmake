# Install rules. Every target has an export file of its own, so that a program which needs only the
# loop is not asked for Eigen, and one which reads no files not for PCRE2.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/foredraft)
# foredraft_add_kernels and the units that it compiles, in the same places relative to each other as here.
set(kernels_dir ${CMAKE_INSTALL_DATADIR}/foredraft)

function(foredraft_install target component)
  install(TARGETS ${target} EXPORT foredraft-${component}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT foredraft-${component}
    FILE foredraft-${component}-targets.cmake
    NAMESPACE foredraft::
    DESTINATION ${package_dir})
endfunction()

foredraft_install(foredraft_loop loop)
if(TARGET foredraft)
  foredraft_install(foredraft core)
endif()
if(TARGET foredraft_io)
  foredraft_install(foredraft_io io)
endif()
if(TARGET foredraft_cuda)
  foredraft_install(foredraft_cuda cuda)
endif()

configure_package_config_file(cmake/foredraft-config.cmake.in foredraft-config.cmake
  INSTALL_DESTINATION ${package_dir}
  PATH_VARS kernels_dir)
# Below 1.0 a minor version may break its users.
write_basic_package_version_file(foredraft-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/foredraft-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/foredraft-config-version.cmake
  DESTINATION ${package_dir})
install(FILES cmake/foredraft_kernels.cmake cmake/foredraft_instruction_sets.cmake
  DESTINATION ${kernels_dir}/cmake)
install(DIRECTORY src/compiled DESTINATION ${kernels_dir}/src FILES_MATCHING PATTERN "*.cpp")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/foredraft)
if(TARGET foredraft_program)
  install(TARGETS foredraft_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
