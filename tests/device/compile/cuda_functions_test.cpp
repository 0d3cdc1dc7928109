#include "yotta/device/compile/cuda_functions.hpp"

#include <doctest/doctest.h>

#include <string>

#include "yotta/device/compile/lanes.hpp"

// What they compute is tested with generated kernels: cuda_source_test in fusion_codegen's place.
TEST_CASE("CUDA has every function that expressions call") {
  const std::string cpu = yotta::lanes_text, cuda = yotta::cuda_functions;
  for (const char* name :
       {" all(", " count_from(", " load(", " store(", " among(", " infinity(", " larger(", " less(",
        " choose(", " exp_of(", " sqrt_of(", " keep(", " fold_sum(", " fold_max("}) {
    CAPTURE(name);
    CHECK(cpu.find(name) != cpu.npos);
    CHECK(cuda.find(name) != cuda.npos);
  }
}
