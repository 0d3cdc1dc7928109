// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/vector_types.hpp"

#include <doctest/doctest.h>

TEST_CASE("vector types have CUDA's sizes and alignments") {
  CHECK((sizeof(float2) == 8 && alignof(float2) == 8));
  CHECK((sizeof(float3) == 12 && alignof(float3) == 4));
  CHECK((sizeof(float4) == 16 && alignof(float4) == 16));
  CHECK((sizeof(double2) == 16 && alignof(double2) == 16));
  CHECK((sizeof(double4) == 32 && alignof(double4) == 16));
  CHECK((sizeof(int4) == 16 && alignof(int4) == 16));
  CHECK((sizeof(uint4) == 16 && alignof(uint4) == 16));
  CHECK((sizeof(short2) == 4 && alignof(short2) == 4));
  CHECK((sizeof(uchar4) == 4 && alignof(uchar4) == 4));
}

TEST_CASE("vector types are made by their makers") {
  const float4 v = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
  CHECK((v.x == 1.0f && v.y == 2.0f && v.z == 3.0f && v.w == 4.0f));
  const uint2 u = make_uint2(7u, 9u);
  CHECK(u.x + u.y == 16u);
}
