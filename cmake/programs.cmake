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

# What a program takes of the library, it compiles; to optimise that in every program again would be most of the wait.
# So in release it is optimised once, in yotta_optimised, which uses most of the library. Programs and tests that do not
# measure are compiled without optimisation and linked behind it: of an inline function that many objects hold, the
# linker keeps the first.
add_library(yotta_optimised OBJECT ${PROJECT_SOURCE_DIR}/course/shared/training.cpp)
target_include_directories(yotta_optimised PUBLIC ${PROJECT_SOURCE_DIR})
target_compile_definitions(yotta_optimised PUBLIC YOTTA_COLLECTIVES_ELSEWHERE)
target_link_libraries(yotta_optimised PUBLIC yotta_strict yotta_paths nlohmann_json::nlohmann_json)

# yotta_unoptimised(target): a program or objects of it.
function(yotta_unoptimised target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O0)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:yotta_optimised>)
    endif()
  endif()
endfunction()

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

# yotta_join(unit files...): a source file that includes the files, each in a namespace of its own. What they share,
# the library's inline functions above all, is compiled once: a quarter of the time. Their headers come first, with the
# conditions they stand under, so that none falls inside a namespace.
function(yotta_join unit)
  set(headers)
  set(bodies)
  foreach(file ${ARGN})
    file(STRINGS ${file} includes REGEX "^#(include|if|el|endif)")
    list(APPEND headers ${includes})
    string(MAKE_C_IDENTIFIER ${file} namespace)
    string(APPEND bodies "namespace ${namespace} {\n#include \"${file}\"\n}\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  list(JOIN headers "\n" headers)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${headers}\n${bodies}" @ONLY)
endfunction()

# yotta_joined_main(stub file): a source file whose main() is that of a file which is joined elsewhere.
function(yotta_joined_main stub file)
  string(MAKE_C_IDENTIFIER ${file} namespace)
  file(CONFIGURE OUTPUT ${stub} CONTENT "namespace ${namespace} {\nint main(int, char**);\n}\n
int main(int argc, char** argv) { return ${namespace}::main(argc, argv); }\n")
endfunction()
