# yotta_check_kernels(target): compiles the target's CUDA kernels for the emulator's checks and
# counters (include/yotta/device/emulator/device_build.hpp says how). The flags are for compiling
# alone: ThreadSanitizer is not linked.
#
#     add_executable(my_kernels my_kernels.cpp)
#     target_link_libraries(my_kernels PRIVATE yotta::yotta)
#     yotta_check_kernels(my_kernels)
# DWARF 4: addr2line of binutils 2.40 takes some lines of DWARF 5 for another file's.
set(yotta_check_flags -O1 -g1 -gdwarf-4 -fno-omit-frame-pointer -fsanitize=thread)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND yotta_check_flags -fsanitize=bounds -Wno-tsan --param=tsan-instrument-func-entry-exit=0)
else()
  list(APPEND yotta_check_flags -fsanitize=array-bounds
                                "SHELL:-mllvm -tsan-instrument-read-before-write=1"
                                "SHELL:-mllvm -tsan-instrument-func-entry-exit=0"
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
  yotta_check_kernels(yotta_compiled_checked)
endif()
