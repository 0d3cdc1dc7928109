#include "yotta/device/cuda/cublas_matmul.hpp"

#include <doctest/doctest.h>

#include "support/not_run.hpp"

// The order of its operands is tested without cuBLAS (device_matmul_test.cpp); nvcc compiles the
// call itself with course/shared/cuda.cu; the numbers need a GPU: tests/gpu_training compares them
// with the course's own matmul.
TEST_CASE("cuBLAS behind the ops' matmul") {
  YOTTA_NOT_RUN("cuBLAS needs a GPU (tests/gpu_training)");
}
