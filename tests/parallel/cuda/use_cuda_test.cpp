#include "yotta/parallel/cuda/use_cuda.hpp"

#include <doctest/doctest.h>

// With nvcc the test cuda_program builds a program with it and starts it without a driver.
TEST_CASE("a program without CUDA says so in one line") {
  const std::string why = yotta::use_cuda();
  CHECK(why.find("built without CUDA") != std::string::npos);
  CHECK(why.find('\n') == std::string::npos);
}
