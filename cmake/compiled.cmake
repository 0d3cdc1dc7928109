# yotta::compiled: the same library with its bodies compiled once (include/yotta/core/system/build.hpp says how). Link it or
# yotta::yotta: a program of both does not link. This file builds it from the folder beside it, in Yotta's own build and,
# installed, in the build of who says find_package; there it is compiled only if something links it.
if(TARGET yotta_compiled)
  return()
endif()
file(GLOB yotta_compiled_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/compiled/*.cpp)
if(NOT TARGET nlohmann_json::nlohmann_json)
  list(FILTER yotta_compiled_sources EXCLUDE REGEX "_json[.]cpp$")
endif()
# What reading a model's tokenizer.json needs beside: the code says so where it is missing.
find_path(YOTTA_PCRE2_INCLUDE pcre2.h)
find_library(YOTTA_PCRE2_LIBRARY pcre2-8)
find_path(YOTTA_UTF8PROC_INCLUDE utf8proc.h)
find_library(YOTTA_UTF8PROC_LIBRARY utf8proc)
mark_as_advanced(YOTTA_PCRE2_INCLUDE YOTTA_PCRE2_LIBRARY YOTTA_UTF8PROC_INCLUDE YOTTA_UTF8PROC_LIBRARY)
add_library(yotta_compiled STATIC EXCLUDE_FROM_ALL ${yotta_compiled_sources})
add_library(yotta::compiled ALIAS yotta_compiled)
target_link_libraries(yotta_compiled PUBLIC yotta::yotta)
target_compile_definitions(yotta_compiled PUBLIC YOTTA_COMPILED)
# Few units compute much. The others are compiled for less time, and with the standard library precompiled.
target_compile_options(yotta_compiled PRIVATE $<$<CONFIG:Release>:-O1>)
target_precompile_headers(yotta_compiled PRIVATE ${CMAKE_CURRENT_LIST_DIR}/compiled/precompiled.hpp)
foreach(source ${yotta_compiled_sources})  # each sees the bodies of its own unit
  get_filename_component(unit ${source} NAME_WE)
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS YOTTA_COMPILING_${unit}=1)
  if(unit MATCHES "^(core|comm_data|nn|nn_.*)$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>
                                                     SKIP_PRECOMPILE_HEADERS ON)
  endif()
endforeach()
foreach(library PCRE2 UTF8PROC)
  if(YOTTA_${library}_INCLUDE AND YOTTA_${library}_LIBRARY)
    set_property(SOURCE ${CMAKE_CURRENT_LIST_DIR}/compiled/tokenizer_json.cpp
                 APPEND PROPERTY COMPILE_DEFINITIONS YOTTA_HAVE_${library})
    target_include_directories(yotta_compiled SYSTEM PRIVATE ${YOTTA_${library}_INCLUDE})
    target_link_libraries(yotta_compiled PRIVATE ${YOTTA_${library}_LIBRARY})
  endif()
endforeach()
set_target_properties(yotta_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
