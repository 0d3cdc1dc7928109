# Every MPI of this machine. YOTTA_MPIS is a list of names; of each there is a target
# yotta_mpi_<name>, which holds the bodies of include/yotta/comm/mpi compiled for it, and a variable
# YOTTA_MPIRUN_<name>. The first is find_package's: that of MPI_HOME, or of the mpicxx on PATH. Then
# come those that Debian installs side by side, with compilers of their own names (mpicxx.openmpi,
# mpicxx.mpich): the tests run on all.
find_package(MPI QUIET COMPONENTS CXX)
set(YOTTA_MPIS)

# yotta_add_mpi(name mpirun libraries...)
function(yotta_add_mpi name mpirun)
  add_library(yotta_mpi_${name} STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/compiled/mpi/mpi.cpp)
  target_link_libraries(yotta_mpi_${name} PUBLIC yotta::compiled_transports ${ARGN})
  target_compile_definitions(yotta_mpi_${name} PUBLIC YOTTA_HAVE_MPI OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_compile_options(yotta_mpi_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  set(YOTTA_MPIRUN_${name} ${mpirun} PARENT_SCOPE)
  set(YOTTA_MPIS ${YOTTA_MPIS} ${name} PARENT_SCOPE)
endfunction()

if(TARGET MPI::MPI_CXX AND MPI_CXX_VERSION VERSION_LESS 3.1)
  message(STATUS "MPI ${MPI_CXX_VERSION} is too old; 3.1 is needed")
elseif(TARGET MPI::MPI_CXX)
  set(name other)
  find_file(YOTTA_MPI_H mpi.h PATHS ${MPI_CXX_INCLUDE_DIRS} NO_DEFAULT_PATH)
  if(YOTTA_MPI_H)
    file(STRINGS ${YOTTA_MPI_H} kinds REGEX "define (OMPI_MAJOR_VERSION|MPICH_VERSION)")
    if(kinds MATCHES "OMPI")
      set(name openmpi)
    elseif(kinds MATCHES "MPICH")
      set(name mpich)
    endif()
  endif()
  yotta_add_mpi(${name} ${MPIEXEC_EXECUTABLE} MPI::MPI_CXX)
endif()

foreach(name openmpi mpich)
  find_program(YOTTA_MPICXX_${name} mpicxx.${name})
  find_program(YOTTA_OWN_MPIRUN_${name} mpirun.${name})
  if(name IN_LIST YOTTA_MPIS OR NOT YOTTA_MPICXX_${name} OR NOT YOTTA_OWN_MPIRUN_${name})
    continue()
  endif()
  execute_process(COMMAND ${YOTTA_MPICXX_${name}} -show OUTPUT_VARIABLE command RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX MATCH "-I([^ ]+)" include "${command}")
  # The compiler's wrapper can be there without the headers.
  if(failed OR NOT EXISTS "${CMAKE_MATCH_1}/mpi.h")
    continue()
  endif()
  yotta_add_mpi(${name} ${YOTTA_OWN_MPIRUN_${name}})
  separate_arguments(command UNIX_COMMAND "${command}")
  foreach(word ${command})
    if(word MATCHES "^-I(.+)")
      target_include_directories(yotta_mpi_${name} SYSTEM PUBLIC ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-L(.+)")
      target_link_directories(yotta_mpi_${name} PUBLIC ${CMAKE_MATCH_1})
    elseif(NOT word MATCHES "mpi_cxx|mpichcxx" AND word MATCHES "^-l(.+)")  # no old C++ interface
      target_link_libraries(yotta_mpi_${name} PUBLIC ${CMAKE_MATCH_1})
    endif()
  endforeach()
endforeach()
