# Builds and runs the stranger's project: cmake -DWAY=... -DYOTTA=... -DBUILD=... -DFOLDER=... -P build.cmake
file(REMOVE_RECURSE ${FOLDER})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with status ${status}\n${output}")
  endif()
endfunction()

set(options)
if(WAY STREQUAL "package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix)
  set(options -DCMAKE_PREFIX_PATH=${FOLDER}/prefix)
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${FOLDER} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DWAY=${WAY} -DYOTTA=${YOTTA} ${options})
run(${CMAKE_COMMAND} --build ${FOLDER})
run(${FOLDER}/stranger)
