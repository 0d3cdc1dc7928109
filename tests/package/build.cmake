# Builds and runs the stranger's project:
# cmake -DWAY=... -DYOTTA=... -DBUILD=... -DCOMPILED=... -DFOLDER=... -DNM=... -P build.cmake
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
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DWAY=${WAY} -DYOTTA=${YOTTA} -DCOMPILED=${COMPILED} ${options})
run(${CMAKE_COMMAND} --build ${FOLDER})

run(${FOLDER}/ranks)
if(NOT WAY STREQUAL "package")
  run(${FOLDER}/small)
  return()
endif()
run(${FOLDER}/program_header_only)
run(${FOLDER}/program_compiled)

# other.cpp includes every header. Its object defines what is the stranger's; all else must be
# inline, or two files that include that header do not link.
file(READ ${FOLDER}/object.txt object)
execute_process(COMMAND ${NM} --defined-only --extern-only --demangle ${object} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* [TDBRSGC] [^\n]*" strong "${symbols}")
set(own ${strong})
list(FILTER own INCLUDE REGEX " [TDBRSGC] stranger::")
list(LENGTH own count)
list(FILTER strong EXCLUDE REGEX " [TDBRSGC] stranger::")
if(NOT count EQUAL 2)
  message(FATAL_ERROR "of the two functions of other.cpp, ${NM} sees ${own}")
elseif(strong)
  list(JOIN strong "\n" strong)
  message(FATAL_ERROR "defined in a header and not inline, so two files that include it do not link:\n${strong}")
endif()

# A header-only file and one of the compiled form do not link: each misses the other's functions,
# and nothing else.
execute_process(COMMAND ${CMAKE_COMMAND} --build ${FOLDER} --target program_mixed RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "undefined (reference to|symbol:)[^\n]*" missing "${output}")
set(others ${missing})
list(FILTER others EXCLUDE REGEX "stranger::")
if(status EQUAL 0)
  message(FATAL_ERROR "a header-only file and one of the compiled form link into one program")
elseif(NOT missing MATCHES "stranger::mean\\(yotta::header_only_form::Tensor const&, yotta::header_only_form::Communicator const[*]"
       OR NOT missing MATCHES "stranger::sum\\(yotta::compiled_form::Tensor const&, yotta::compiled_form::Communicator const[*]" OR others)
  message(FATAL_ERROR "the program of both forms does not link, but for another reason than its forms:\n${output}")
endif()
