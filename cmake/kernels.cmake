# yotta_check_kernels(target): compiles the target's CUDA kernels for the emulator's checks and
# counters (include/yotta/device/emulator/device_build.hpp says how). The flags are for compiling
# alone: ThreadSanitizer is not linked.
#
#     add_executable(my_kernels my_kernels.cpp)
#     target_link_libraries(my_kernels PRIVATE yotta::yotta yotta::compiled_checked)
#     yotta_check_kernels(my_kernels)
# DWARF 4: addr2line of binutils 2.40 takes some lines of DWARF 5 for another file's.
set(yotta_check_flags -O1 -g1 -ftrivial-auto-var-init=pattern -gdwarf-4 -fno-omit-frame-pointer -fsanitize=thread)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND yotta_check_flags -fsanitize=bounds -Wno-tsan --param=tsan-instrument-func-entry-exit=0
                                --param=tsan-distinguish-volatile=1)
else()
  # The emulator asks where a function returns to, so clang must not turn its call into a jump.
  list(APPEND yotta_check_flags -fsanitize=array-bounds -fno-optimize-sibling-calls
                                "SHELL:-mllvm -tsan-instrument-read-before-write=1"
                                "SHELL:-mllvm -tsan-instrument-func-entry-exit=0"
                                "SHELL:-mllvm -tsan-distinguish-volatile=1"
                                "SHELL:-mllvm -disable-loop-idiom-all")
endif()
function(yotta_check_kernels target)
  target_compile_definitions(${target} PRIVATE YOTTA_CHECKED)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${yotta_check_flags}>")
endfunction()

# yotta::compiled_checked: the emulator with its checks, compiled once, beside
# yotta::compiled_device.
if(TARGET yotta_compiled AND NOT TARGET yotta_compiled_checked AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_library(yotta_compiled_checked STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/compiled/checked/device.cpp)
  add_library(yotta::compiled_checked ALIAS yotta_compiled_checked)
  target_link_libraries(yotta_compiled_checked PUBLIC yotta_compiled_device)
  set_target_properties(yotta_compiled_checked PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # It has no kernels, so nothing in it calls for a check.
  target_compile_definitions(yotta_compiled_checked PRIVATE YOTTA_CHECKED YOTTA_NO_KERNELS)
  target_compile_options(yotta_compiled_checked PRIVATE -O2 -g1 -gdwarf-4 -fno-omit-frame-pointer)
endif()

# yotta_add_cuda_program(target [CHECKED] files.cu...): a program of CUDA files as they are. nvcc
# compiles them where the project has enabled CUDA; otherwise they are written for g++ or clang
# (include/yotta/device/unchanged/source_step.hpp) and run in the emulator, with CHECKED under its
# checks.
#
#     yotta_add_cuda_program(my_program CHECKED "reduce.cu" "main.cu")
set(yotta_cuda_source ${CMAKE_CURRENT_LIST_DIR}/cuda_source.cpp)
find_path(yotta_include yotta/device/kernel.hpp NO_DEFAULT_PATH NO_CACHE
          PATHS ${CMAKE_CURRENT_LIST_DIR}/../include ${PACKAGE_PREFIX_DIR}/include)
function(yotta_add_cuda_program target)
  cmake_parse_arguments(PARSE_ARGV 1 cuda "CHECKED" "" "")
  if(CMAKE_CUDA_COMPILER)
    add_executable(${target} ${cuda_UNPARSED_ARGUMENTS})
    return()
  endif()
  if(NOT TARGET yotta_cuda_source)
    add_executable(yotta_cuda_source EXCLUDE_FROM_ALL ${yotta_cuda_source})
    target_include_directories(yotta_cuda_source PRIVATE ${yotta_include})
    target_compile_features(yotta_cuda_source PRIVATE cxx_std_20)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda)
  file(MAKE_DIRECTORY ${folder})
  foreach(file ${cuda_UNPARSED_ARGUMENTS})
    get_filename_component(in ${file} ABSOLUTE)
    file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR} ${in})
    string(MAKE_C_IDENTIFIER ${name} name)
    set(out ${folder}/${name}.cpp)
    add_custom_command(OUTPUT ${out} DEPENDS ${in} yotta_cuda_source DEPFILE ${out}.d VERBATIM
                       COMMAND yotta_cuda_source ${in} ${out} COMMENT "CUDA as C++: ${file}")
    list(APPEND written ${out})
  endforeach()
  add_executable(${target} ${written})
  target_include_directories(${target} BEFORE PRIVATE ${yotta_include}/yotta/device/unchanged/headers)
  target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)
  if(cuda_CHECKED)
    target_link_libraries(${target} PRIVATE yotta::compiled_checked)
    yotta_check_kernels(${target})
  else()
    target_link_libraries(${target} PRIVATE yotta::compiled_device)
  endif()
endfunction()
