# cmake -DCXX=... -DSOURCE=... -DINCLUDE=... -DOUT=... -P dot_assembly.cmake
# Fails unless the two dot products of lesson 04 are compiled for x86-64-v4 as its text says: in
# order, every fused multiply-add is of single numbers; in chains, four are of whole registers, each
# with a sum of its own.
execute_process(COMMAND ${CXX} -std=c++20 -O2 -march=x86-64-v4 -I${INCLUDE} -S -masm=intel -o ${OUT} ${SOURCE}
                COMMAND_ERROR_IS_FATAL ANY)
file(READ ${OUT} assembly)
string(REGEX MATCHALL "vfmadd[0-9]+ss" singles "${assembly}")
string(REGEX MATCHALL "vfmadd[0-9]+ps[ \t]+[xyz]mm[0-9]+" registers "${assembly}")
set(sums ${registers})
list(REMOVE_DUPLICATES sums)
list(FILTER sums INCLUDE REGEX "231ps[ \t]+zmm")  # whole registers, the sum the one that is written
list(LENGTH singles single)
list(LENGTH registers fmas)
list(LENGTH sums chains)
message(STATUS "FMAs: ${single} of a number, ${fmas} of registers with ${chains} sums")
if(single EQUAL 0 OR NOT fmas EQUAL 4 OR NOT chains EQUAL 4)
  message(FATAL_ERROR "expected some FMAs of a number (in_order may not be vectorised), and four of registers, each with a sum of its own (in_chains)")
endif()
