# Builds and runs the stranger's project:
# cmake -DWAY=... -DYOTTA=... -DBUILD=... -DCOMPILED=... -DFOLDER=... -DNM=... -P build.cmake
file(REMOVE_RECURSE ${FOLDER})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with status ${status}\n${output}")
  endif()
endfunction()

# What docs/using.md says: of its blocks of CMake, the one with this command.
set(command_package find_package)
set(command_subdirectory add_subdirectory)
set(command_fetch FetchContent_Declare)
file(READ ${YOTTA}/docs/using.md text)
string(REPLACE ";" "," text "${text}")
string(REGEX MATCH "```cmake\n([^`]*${command_${WAY}}[^`]*)```" found "${text}")
set(lines "${CMAKE_MATCH_1}")
if(NOT lines)
  message(FATAL_ERROR "docs/using.md has no block of CMake with ${command_${WAY}}")
endif()

set(source ${FOLDER}/source)
file(GLOB files ${CMAKE_CURRENT_LIST_DIR}/*.?pp ${CMAKE_CURRENT_LIST_DIR}/CMakeLists.txt)
file(COPY ${files} DESTINATION ${source})
set(options)
if(WAY STREQUAL "package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix)
  set(options -DCMAKE_PREFIX_PATH=${FOLDER}/prefix)
elseif(WAY STREQUAL "subdirectory")
  file(CREATE_LINK ${YOTTA} ${source}/yotta SYMBOLIC)
else()  # a repository with its branch main, in place of the address
  set(repository ${FOLDER}/repository)
  file(COPY ${YOTTA}/CMakeLists.txt ${YOTTA}/cmake ${YOTTA}/include DESTINATION ${repository})
  run(git -c init.defaultBranch=main init -q ${repository})
  run(git -C ${repository} add .)
  run(git -C ${repository} -c user.name=stranger -c user.email=stranger@example.org commit -q -m "All of it")
  string(REGEX REPLACE "https://[^ ]+" "${repository}" lines "${lines}")
endif()
file(WRITE ${source}/way.cmake "${lines}")
run(${CMAKE_COMMAND} -S ${source} -B ${FOLDER} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
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
