# The library itself: yotta::yotta, header-only, in the build tree and installed; and
# yotta::compiled.
include(CheckCXXCompilerFlag)
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(yotta INTERFACE)
add_library(yotta::yotta ALIAS yotta)
target_compile_features(yotta INTERFACE cxx_std_20)
target_include_directories(yotta INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# The installed package names its dependencies again in yottaConfig.cmake, so that a fetched {fmt}
# need not be installed.
set(yotta_links fmt::fmt Boost::context Threads::Threads)
# For model/, which reads and writes config.json and safetensors.
if(TARGET nlohmann_json::nlohmann_json)
  list(APPEND yotta_links nlohmann_json::nlohmann_json)
endif()
target_link_libraries(yotta INTERFACE "$<BUILD_INTERFACE:${yotta_links}>")

# What this machine's compiler calls "this machine": x86 says -march=native, clang on Arm says
# -mcpu=native.
foreach(flag -march=native -mcpu=native)
  string(MAKE_C_IDENTIFIER "YOTTA_HAS${flag}" has)
  check_cxx_compiler_flag(${flag} ${has})
  if(${has})
    set(yotta_native_flag ${flag})
    break()
  endif()
endforeach()
# Vectors of 64 bytes (device/compile/lanes.hpp) are passed by value within a unit alone. Where
# registers are narrower, compilers warn that they pass them in another way than with AVX-512.
target_compile_options(yotta INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wno-psabi>")
# clang 19 warns about what it finds itself on a processor with AVX10 (Granite Rapids).
if(yotta_native_flag AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  check_cxx_compiler_flag("-Werror ${yotta_native_flag}" YOTTA_NATIVE_IS_QUIET)
  if(NOT YOTTA_NATIVE_IS_QUIET)
    set(yotta_quiet_flag -Wno-invalid-feature-combination)
    list(APPEND yotta_native_flag ${yotta_quiet_flag})
  endif()
endif()
if(YOTTA_NATIVE AND yotta_native_flag)
  target_compile_options(yotta INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${yotta_native_flag}>>")
endif()

if(YOTTA_HANDED_OUT)  # a tree that `./yotta handout` has made
  include(cmake/handed_out.cmake)
else()
  include(cmake/compiled.cmake)
endif()

install(TARGETS yotta EXPORT yottaTargets)
install(DIRECTORY include/yotta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT yottaTargets NAMESPACE yotta:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/yotta)
configure_package_config_file(cmake/yottaConfig.cmake.in yottaConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/yotta)
write_basic_package_version_file(yottaConfigVersion.cmake COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/yottaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/yottaConfigVersion.cmake
              cmake/compiled.cmake cmake/parts.cmake cmake/kernels.cmake cmake/cuda_source.cpp DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/yotta)
install(DIRECTORY cmake/compiled DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/yotta)
