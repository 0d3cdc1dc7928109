#include "yotta/device/tensor_map.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// A description that breaks no rule: 100 x 64 numbers of two bytes, boxes of 16 x 32.
TensorMapArguments right(void* data) {
  TensorMapArguments map{.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, .rank = 2, .data = data};
  map.size = {64, 100};
  map.stride = {128};
  map.box = {32, 16};
  return map;
}

template <class Change>
std::string rule_after(Change change) {
  TensorMapArguments map = right(reinterpret_cast<void*>(uintptr_t{4096}));
  change(map);
  return broken_rule(map);
}

}  // namespace

TEST_CASE("swizzles: XORed address bits are chunks that change places with their row") {
  for (uint32_t byte = 0; byte < 4096; ++byte) {
    CHECK(swizzled_byte(byte, Swizzle::none) == byte);
    for (const auto& [swizzle, rows_a_line] :
         {std::pair{Swizzle::b128, 1u}, {Swizzle::b64, 2u}, {Swizzle::b32, 4u}}) {
      const auto span = static_cast<uint32_t>(swizzle);
      const uint32_t row = byte / span, chunk = byte % span / 16, chunks = span / 16;
      const uint32_t place = chunk ^ (row / rows_a_line % chunks);
      CHECK(swizzled_byte(byte, swizzle) == row * span + place * 16 + byte % 16);
      CHECK(swizzled_byte(swizzled_byte(byte, swizzle), swizzle) == byte);
      CHECK(swizzled_byte(byte + 8 * span * rows_a_line, swizzle) ==
            swizzled_byte(byte, swizzle) + 8 * span * rows_a_line);
    }
  }
}

TEST_CASE("each broken rule is named") {
  using Map = TensorMapArguments;
  CHECK(rule_after([](Map&) {}) == "");
  const auto check_rule = [](auto change, const std::string& words) {
    check_says(rule_after(change), {words});
  };
  check_rule([](Map& map) { map.rank = 6; }, "1 to 5 dimensions, not 6");
  check_rule([](Map& map) { map.rank = 0; }, "1 to 5 dimensions, not 0");
  check_rule([](Map& map) { map.data = static_cast<char*>(map.data) + 8; }, "multiple of 16");
  check_rule([](Map& map) { map.stride[0] = 120; }, "that of dimension 1 is 120. Pad the rows");
  check_rule([](Map& map) { map.stride[0] = uint64_t{1} << 40; }, "less than 2^40");
  check_rule([](Map& map) { map.size[1] = 0; }, "dimension 1 must have 1 to 2^32 elements, not 0");
  check_rule([](Map& map) { map.box[1] = 257; }, "1 to 256 elements along each dimension; along 1");
  check_rule([](Map& map) { map.box[0] = 12; }, "multiple of 16 bytes; 12 elements have 24");
  check_rule([](Map& map) { map.element_stride[1] = 9; },
             "the step along each dimension is 1 to 8");
  check_rule(
      [](Map& map) { map.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; },
      "with a swizzle of 32 bytes a row of the box has at most 32 bytes; 32 elements have 64");
  check_rule([](Map& map) { map.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }, "left out here");
  CHECK(rule_after([](Map& map) { map.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }) == "");
}

TEST_CASE("CUDA's own function, and ours of a tensor without gaps, describe the same") {
  DeviceArray<bfloat16> x(100 * 64);
  const TensorMapArguments map = right(x.data());
  CUtensorMap theirs = {};
  const auto encode = [&](const uint32_t* box) {
    return cuTensorMapEncodeTiled(&theirs, map.type, map.rank, map.data, map.size.data(),
                                  map.stride.data(), box, map.element_stride.data(), map.interleave,
                                  map.swizzle, map.l2_promotion, map.fill);
  };
  REQUIRE(encode(map.box.data()) == CUDA_SUCCESS);
  const CUtensorMap ours = tensor_map(x.data(), {100, 64}, {16, 32});
  for (int i = 0; i < 16; ++i) CHECK(theirs.opaque[i] == ours.opaque[i]);
  const uint32_t too_large[] = {512, 16};
  CHECK(encode(too_large) == CUDA_ERROR_INVALID_VALUE);
  check_says(error_of([&] {
               tensor_map(x.data(), {100, 63}, {16, 32});
             }),
             {"tensor_map_test.cpp:", "tensor map: strides must be multiples of 16 bytes"});
}
