# How the course's own programs are built: warnings are errors for us, and for no one who uses the library.
add_library(yotta_strict INTERFACE)
target_compile_options(yotta_strict INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651)
  target_compile_options(yotta_strict INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
target_link_libraries(yotta_strict INTERFACE yotta::yotta)
# For programs that read and build the course itself: where it lies, and where it is built.
add_library(yotta_paths INTERFACE)
target_compile_definitions(yotta_paths INTERFACE YOTTA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                 YOTTA_BUILD_DIR="${PROJECT_BINARY_DIR}")

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

# yotta_use_cuda(target file): in builds with nvcc, adds a .cu file that lies beside it, and defines YOTTA_HAVE_CUDA.
function(yotta_use_cuda target file)
  if(YOTTA_CUDA AND EXISTS ${file})
    target_sources(${target} PRIVATE ${file})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE CUDA::cudart CUDA::cublas)
    target_compile_definitions(${target} PRIVATE YOTTA_HAVE_CUDA)
  endif()
endfunction()
