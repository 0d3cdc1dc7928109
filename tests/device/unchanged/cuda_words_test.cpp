// The words themselves are tested one header at a time, and by the programs of programs/.
#include "yotta/device/unchanged/cuda_words.hpp"

#include <doctest/doctest.h>

#include <type_traits>

TEST_CASE("one header has the words of all") {
  static_assert(std::is_same_v<decltype(max(1, 2)), int>);
  static_assert(std::is_same_v<decltype(cudaGetLastError()), cudaError_t>);
  const uint3 three = dim3(1, 2, 3);
  CHECK(three.z == 3);
  CHECK(__popc(7) == 3);
  CHECK(rsqrtf(4.0f) == 0.5f);
  CHECK(make_float4(1, 2, 3, 4).w == 4.0f);
}
