# The cuda preset: .cu files are compiled by nvcc as C++20.
# CMake before 3.25.2 does not know nvcc's -std=c++20 and drops it in silence, so say it here.
if(CMAKE_VERSION VERSION_LESS 3.25.2)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90a)
endif()
enable_language(CUDA)
if(CMAKE_VERSION VERSION_LESS 3.25.2)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit REQUIRED)
# Bodies of ops are constexpr here and there, and hold pragmas of g++
# (include/yotta/nn/cpu/body.hpp); nvcc takes the assignment of a [[nodiscard]] type for a value
# that is thrown away. 20208: {fmt} speaks of long double, which kernels do not have.
string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr -diag-suppress=1675,2810,20208")
find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
