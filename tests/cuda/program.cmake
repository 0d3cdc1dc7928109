# Builds a small program with CUDA, cuBLAS and, where it is found, NCCL, as the course's programs
# are built, and starts it on a machine without a driver: it must start, and say in one line what is
# missing. With a GPU it trains nothing here; tests/gpu_training does that. So, too, with NCCL: the
# tests of every transport, for processes on GPUs.
#     cmake -DNVCC=... -DCXX=... -DROOT=<project> -DFOLDER=<scratch> -DEVERY_TRANSPORT=<objects>
#           -DCOMPILED=<yotta::compiled> -P program.cmake
get_filename_component(bin ${NVCC} DIRECTORY)
get_filename_component(home ${bin} DIRECTORY)
file(MAKE_DIRECTORY ${FOLDER})
set(defines -DYOTTA_HAVE_CUDA -DYOTTA_COMPILED)
set(libraries -lcudart -lcublas -lcublasLt)
find_library(NCCL nccl HINTS ${home}/lib ${home}/lib64)
if(NCCL)
  list(APPEND defines -DYOTTA_HAVE_NCCL)
  list(APPEND libraries ${NCCL})
else()
  message(STATUS "NCCL is not installed: built without it")
endif()
file(WRITE ${FOLDER}/main.cpp [=[
#include <cstdlib>

#include "yotta/comm/nccl/nccl.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"

int main() {
  fmt::print("cuda: {}\n", yotta::use_cuda());
  const char* const queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  fmt::print("queues: {}\n", queues == nullptr ? "none" : queues);
  fmt::print("nccl: {}\n", yotta::why_no_nccl());
  try {
    const yotta::DeviceScope scope(yotta::Device::cuda);
    fmt::print("sum: {}\n", yotta::Tensor::full({2}, 3).values()[1]);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
  }
}
]=])
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()
run(${NVCC} -std=c++20 -gencode=arch=compute_90a,code=sm_90a ${defines} --expt-relaxed-constexpr -diag-suppress 1675,2810
    -I${ROOT}/include -c -o ${FOLDER}/cuda.o ${ROOT}/course/training/cuda.cu)
run(${CXX} -std=c++20 ${defines} -I${ROOT}/include -c -o ${FOLDER}/main.o ${FOLDER}/main.cpp)
run(${CXX} -o ${FOLDER}/program ${FOLDER}/main.o ${FOLDER}/cuda.o -L${home}/lib64 -L${home}/lib
    -Wl,-rpath,${home}/lib64:${home}/lib ${COMPILED} ${libraries} -lfmt -lboost_context -pthread)
run(${CMAKE_COMMAND} -E env --unset=CUDA_DEVICE_MAX_CONNECTIONS ${FOLDER}/program)
message(STATUS "${out}")
if(NOT out MATCHES "queues: 32\n")
  message(FATAL_ERROR "CUDA was not asked for queues:\n${out}")
elseif(out MATCHES "cuda: \n" AND NOT out MATCHES "sum: 3")
  message(FATAL_ERROR "there is a GPU, but no sum of 3:\n${out}")
elseif(NOT out MATCHES "cuda: \n" AND NOT out MATCHES "main.cpp:[0-9]+: there is no NVIDIA GPU with a driver here; use Device::cpu")
  message(FATAL_ERROR "without a driver it should say so:\n${out}")
elseif(NCCL AND NOT out MATCHES "nccl: (there is no NVIDIA GPU|\n)")
  message(FATAL_ERROR "NCCL should say that there is no driver:\n${out}")
endif()

# The tests of every transport: their objects are compiled already, all but main().
if(NOT NCCL OR NOT EVERY_TRANSPORT)
  return()
endif()
run(${CXX} -std=c++20 ${defines} -DYOTTA_TEST_ON_SOCKETS -DYOTTA_TEST_ON_NCCL -I${ROOT}/include
    -I${ROOT}/tests -c -o ${FOLDER}/contract.o ${ROOT}/tests/support/main.cpp)
run(${CXX} -o ${FOLDER}/contract ${FOLDER}/contract.o ${EVERY_TRANSPORT}  ${FOLDER}/cuda.o -L${home}/lib64 -L${home}/lib
    -Wl,-rpath,${home}/lib64:${home}/lib ${COMPILED} ${libraries} -lfmt -lboost_context -pthread)
execute_process(COMMAND ${FOLDER}/contract --count RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
message(STATUS "${out}")
if(NOT (code EQUAL 77 AND out STREQUAL "not run: there is no NVIDIA GPU with a driver here\n") AND NOT code EQUAL 0)
  message(FATAL_ERROR "without a driver it should say so, in one line, and end with 77, not ${code}:\n${out}")
endif()
