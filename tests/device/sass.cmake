# cmake -DNVCC=... -DREADELF=... -DINCLUDE=... -DFOLDER=... [-DCUOBJDUMP=...] -P sass.cmake
# Fails unless sass_ours.cu and sass_raw.cu become kernels of the same number of instructions.
# cuobjdump (with nvdisasm) counts them; without it the size of the code does, 16 bytes an
# instruction.
file(MAKE_DIRECTORY ${FOLDER})
foreach(way ours raw)
  set(cubin ${FOLDER}/sass_${way}.cubin)
  execute_process(COMMAND ${NVCC} -std=c++20 -arch=sm_80 -cubin -I${INCLUDE} -o ${cubin} ${CMAKE_CURRENT_LIST_DIR}/sass_${way}.cu
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${way} 0)
  if(CUOBJDUMP)
    execute_process(COMMAND ${CUOBJDUMP} -sass ${cubin} OUTPUT_VARIABLE sass COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "/\\*[0-9a-f][0-9a-f][0-9a-f][0-9a-f]\\*/" instructions "${sass}")
    list(LENGTH instructions ${way})
  else()
    execute_process(COMMAND ${READELF} -SW ${cubin} OUTPUT_VARIABLE sections ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
    if(sections MATCHES "[.]text[.][^ ]+ +PROGBITS +[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+)")
      math(EXPR ${way} "0x${CMAKE_MATCH_1} / 16")
    endif()
  endif()
endforeach()
message(STATUS "SASS instructions: ${ours} with our headers, ${raw} in plain CUDA")
if(NOT ours EQUAL raw OR raw EQUAL 0)
  message(FATAL_ERROR "under nvcc the emulator's headers must cost nothing")
endif()
