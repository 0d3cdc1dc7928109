# How the course's own programs are built: they use the compiled form of the library
# (cmake/library.cmake), and warnings are errors for us, and for no one who uses the library. (In a
# tree for students a function may wait for its body.)
add_library(yotta_warnings INTERFACE)
target_compile_options(yotta_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror>)
if(YOTTA_HANDED_OUT)
  target_compile_options(yotta_warnings INTERFACE -Wno-error -Wno-unused-parameter -Wno-return-type)
endif()
# g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(yotta_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
else()  # with a precompiled <algorithm>, clang takes libstdc++'s own calls for ours
  target_compile_options(yotta_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(TARGET yotta_precompiled_units)  # not in a tree that was handed out
  set(yotta_units yotta_precompiled_units)
endif()
foreach(library ${yotta_libraries} ${yotta_units})
  target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:yotta_warnings>)
endforeach()
add_custom_target(library DEPENDS ${yotta_libraries})

add_library(yotta_strict INTERFACE)
target_link_libraries(yotta_strict INTERFACE yotta_warnings yotta::compiled)

# A faster linker, where there is one: a tenth of a second per program, which a student waits for
# too.
include(CheckLinkerFlag)
foreach(linker lld gold)
  check_linker_flag(CXX -fuse-ld=${linker} YOTTA_HAS_${linker})
  if(YOTTA_HAS_${linker} AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=${linker}>)
    break()
  endif()
endforeach()

# AddressSanitizer, for what students write: its library is a package of its own on some systems.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  check_linker_flag(CXX -fsanitize=address YOTTA_HAS_ASAN)
endif()

# For programs that read and build the course itself: where it lies, and where it is built.
add_library(yotta_paths INTERFACE)
target_compile_definitions(yotta_paths INTERFACE YOTTA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                 YOTTA_BUILD_DIR="${PROJECT_BINARY_DIR}")

# yotta_quick(targets...): what nobody measures is compiled without optimisation, since the library
# behind it is optimised, and with the standard library precompiled. yotta_quick_tests is for what
# uses doctest; yotta_quick_net and yotta_quick_net_tests have the pages of parallel/ precompiled
# too. (Under ThreadSanitizer with -O1: unoptimised code of a fiber's switch begins a call on one
# stack and ends it on another.)
set(yotta_quick_flag -O0)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(yotta_quick_flag -O1)
endif()
set(doctest_folder $<TARGET_PROPERTY:doctest::doctest,INTERFACE_INCLUDE_DIRECTORIES>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty.cpp CONTENT "")
foreach(kind programs tests net net_tests)
  add_library(yotta_precompiled_${kind} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/empty.cpp)
  target_link_libraries(yotta_precompiled_${kind} PRIVATE yotta_strict)
  target_precompile_headers(yotta_precompiled_${kind} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/precompiled_${kind}.hpp)
  target_compile_options(yotta_precompiled_${kind} PRIVATE ${yotta_quick_flag})
  target_include_directories(yotta_precompiled_${kind} SYSTEM PRIVATE ${doctest_folder})
  # Precompiled headers hold the paths of what they include. A ccache with a base_dir above several
  # checkouts gives one those of another, whose files are others to #pragma once: then nothing here
  # compiles.
  set_target_properties(yotta_precompiled_${kind} PROPERTIES CXX_COMPILER_LAUNCHER "")
endforeach()
set_property(TARGET ${yotta_units} PROPERTY CXX_COMPILER_LAUNCHER "")
# clang compiles the inline functions of a precompiled header once, into a library, where others
# compile them in each file that uses them.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${yotta_quick_flag}")
  foreach(kind net net_tests)
    target_compile_options(yotta_precompiled_${kind} PRIVATE "SHELL:-Xclang -fmodules-codegen")
    set(header ${PROJECT_BINARY_DIR}/CMakeFiles/yotta_precompiled_${kind}.dir/cmake_pch.hxx.pch)
    set(code ${PROJECT_BINARY_DIR}/${kind}_code.o)
    add_custom_command(OUTPUT ${code} DEPENDS ${header} VERBATIM
      COMMAND ${CMAKE_CXX_COMPILER} ${flags} ${yotta_quiet_flag} -ffunction-sections -c ${header} -o ${code})
    add_library(yotta_code_of_${kind} STATIC EXCLUDE_FROM_ALL ${code})
    set_target_properties(yotta_code_of_${kind} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(yotta_code_of_${kind} PRIVATE yotta::compiled)
    # Some that no file uses call what libstdc++ does not export.
    target_link_options(yotta_code_of_${kind} INTERFACE -Wl,--gc-sections)
  endforeach()
endif()
function(yotta_quick_with kind)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${yotta_quick_flag})
    target_precompile_headers(${target} REUSE_FROM yotta_precompiled_${kind})
    if(TARGET yotta_code_of_${kind})
      target_link_libraries(${target} PRIVATE yotta_code_of_${kind})
    endif()
    if(kind MATCHES "tests")
      target_include_directories(${target} SYSTEM PRIVATE ${doctest_folder})
    endif()
  endforeach()
endfunction()
function(yotta_quick)
  yotta_quick_with(programs ${ARGN})
endfunction()
function(yotta_quick_tests)
  yotta_quick_with(tests ${ARGN})
endfunction()
function(yotta_quick_net)
  yotta_quick_with(net ${ARGN})
endfunction()
function(yotta_quick_net_tests)
  yotta_quick_with(net_tests ${ARGN})
endfunction()

# The compiled library for notebooks, whose cells are compiled as they run.
if(yotta_libraries)
  list(TRANSFORM yotta_libraries REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(yotta_notebook SHARED EXCLUDE_FROM_ALL ${objects})
  target_link_libraries(yotta_notebook PRIVATE yotta::compiled)
  set_target_properties(yotta_notebook PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endif()

# yotta_program(name files...): a program of our own.
function(yotta_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE yotta_strict)
endfunction()

# yotta_use_mpi(target): links the first MPI and defines YOTTA_HAVE_MPI, where MPI was found.
function(yotta_use_mpi target)
  if(YOTTA_MPIS)
    list(GET YOTTA_MPIS 0 first)
    target_link_libraries(${target} PRIVATE yotta_mpi_${first})
  endif()
endfunction()

# yotta_use_cuda(target file): in builds with nvcc, adds a .cu file that lies beside it, and defines
# YOTTA_HAVE_CUDA.
function(yotta_use_cuda target file)
  if(YOTTA_CUDA AND EXISTS ${file})
    target_sources(${target} PRIVATE ${file})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE CUDA::cudart CUDA::cublas CUDA::cublasLt)
    target_compile_definitions(${target} PRIVATE YOTTA_HAVE_CUDA)
  endif()
endfunction()
