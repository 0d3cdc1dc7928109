# yotta::compiled: the same library with its bodies compiled once
# (include/yotta/core/system/build.hpp says how). Link it or yotta::yotta: a program of both does
# not link. This file builds it from the folder beside it, in Yotta's own build and, installed, in
# the build of who says find_package; there it is compiled only if something links it.
#
# It comes in parts, so that a small program waits for little: yotta::compiled_comm has the units
# compiled/comm_*.cpp, and links the parts that it needs. yotta::compiled is
# all of them.
if(TARGET yotta_compiled)
  return()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/parts.cmake)

file(GLOB yotta_compiled_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/compiled/*.cpp)
if(NOT TARGET nlohmann_json::nlohmann_json)
  list(FILTER yotta_compiled_sources EXCLUDE REGEX "_json[.]cpp$")
endif()

# The standard library, precompiled once for the units that compute little. These are compiled for
# less time, too.
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/no_unit.cpp CONTENT "")
set(yotta_unit_options $<$<CONFIG:Release>:-O1>)
add_library(yotta_precompiled_units OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/no_unit.cpp)
target_link_libraries(yotta_precompiled_units PRIVATE yotta::yotta)
target_compile_definitions(yotta_precompiled_units PRIVATE YOTTA_COMPILED)
target_compile_options(yotta_precompiled_units PRIVATE ${yotta_unit_options})
target_precompile_headers(yotta_precompiled_units PRIVATE ${CMAKE_CURRENT_LIST_DIR}/compiled/precompiled.hpp)
set_target_properties(yotta_precompiled_units PROPERTIES POSITION_INDEPENDENT_CODE ON)

add_library(yotta_compiled INTERFACE)
add_library(yotta::compiled ALIAS yotta_compiled)
set(yotta_placed)
foreach(part ${yotta_parts})
  set(sources ${yotta_compiled_sources})
  list(FILTER sources INCLUDE REGEX "/${part}(_[a-z_]+)?[.]cpp$")
  set(library yotta_compiled_${part})
  list(TRANSFORM yotta_needs_${part} PREPEND yotta_compiled_ OUTPUT_VARIABLE needs)
  if(NOT sources)  # pages alone; and without JSON there is no tokenizer
    add_library(${library} INTERFACE)
    add_library(yotta::compiled_${part} ALIAS ${library})
    target_link_libraries(${library} INTERFACE ${needs})
    continue()
  endif()
  list(APPEND yotta_placed ${sources})
  add_library(${library} STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(yotta::compiled_${part} ALIAS ${library})
  target_link_libraries(${library} PUBLIC ${needs} yotta::yotta)
  target_compile_definitions(${library} PUBLIC YOTTA_COMPILED)
  target_compile_options(${library} PRIVATE ${yotta_unit_options})
  target_precompile_headers(${library} REUSE_FROM yotta_precompiled_units)
  set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  foreach(source ${sources})
    get_filename_component(unit ${source} NAME_WE)
    if(unit MATCHES "^(core|ranks_data|device_fusion|kernels|nn|nn_.*|planner)$")  # much to compute
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>
                                                       SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  target_link_libraries(yotta_compiled INTERFACE ${library})
  list(APPEND yotta_libraries ${library})
endforeach()
list(REMOVE_ITEM yotta_compiled_sources ${yotta_placed})
if(yotta_compiled_sources)
  message(FATAL_ERROR "${yotta_compiled_sources} belongs to no part of yotta::compiled: name its part in yotta_parts")
endif()

# What reading a model's tokenizer.json needs beside: the code says so where it is missing.
find_path(YOTTA_PCRE2_INCLUDE pcre2.h)
find_library(YOTTA_PCRE2_LIBRARY pcre2-8)
find_path(YOTTA_UTF8PROC_INCLUDE utf8proc.h)
find_library(YOTTA_UTF8PROC_LIBRARY utf8proc)
mark_as_advanced(YOTTA_PCRE2_INCLUDE YOTTA_PCRE2_LIBRARY YOTTA_UTF8PROC_INCLUDE YOTTA_UTF8PROC_LIBRARY)
foreach(library PCRE2 UTF8PROC)
  if(yotta_compiled_tokenizer IN_LIST yotta_libraries AND YOTTA_${library}_INCLUDE AND YOTTA_${library}_LIBRARY)
    set_property(SOURCE ${CMAKE_CURRENT_LIST_DIR}/compiled/tokenizer_json.cpp
                 APPEND PROPERTY COMPILE_DEFINITIONS YOTTA_HAVE_${library})
    target_include_directories(yotta_compiled_tokenizer SYSTEM PRIVATE ${YOTTA_${library}_INCLUDE})
    target_link_libraries(yotta_compiled_tokenizer PRIVATE ${YOTTA_${library}_LIBRARY})
  endif()
endforeach()
