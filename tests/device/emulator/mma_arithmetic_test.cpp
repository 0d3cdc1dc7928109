#include "yotta/device/emulator/mma_arithmetic.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "support/mma_input.hpp"

using namespace yotta;

namespace {

// The registers of a warp, and the matrices that they came from (Volta: four of each, one after
// another).
template <class Shape, class Input>
struct Warp {
  using Register = MmaRegister<Input>;
  using Sum = MmaSum<Input>;
  static constexpr int words_of(int elements) {
    return sizeof(Register) == sizeof(Input) ? elements
                                             : elements * static_cast<int>(sizeof(Input)) / 4;
  }
  Register a[32][words_of(Shape::a_elements)] = {}, b[32][words_of(Shape::b_elements)] = {};
  Sum c[32][Shape::c_elements] = {}, d[32][Shape::c_elements] = {};

  void run() {
    MmaLane<Input> lanes[32];
    for (int lane = 0; lane < 32; ++lane) lanes[lane] = {a[lane], b[lane], c[lane], d[lane]};
    run_mma<Shape, Input>(lanes);
  }
  static void put(void* registers, int i, Input value) {
    std::memcpy(static_cast<char*>(registers) + static_cast<size_t>(i) * sizeof(Input), &value,
                sizeof value);
  }
};

// Fills the registers by the written-out meaning of a fragment, multiplies, and checks each result
// against a plain product of the matrices.
template <class Shape, class Input>
void check_product() {
  constexpr int m = Shape::m, n = Shape::n, products = Shape::products;
  Warp<Shape, Input> warp;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Shape::a_elements; ++i) {
      const MatrixCell at = Shape::a(lane, i);
      warp.put(warp.a[lane], i, as<Input>(whole(0, at)));
    }
    for (int i = 0; i < Shape::b_elements; ++i) {
      const MatrixCell at = Shape::b(lane, i);
      warp.put(warp.b[lane], i, as<Input>(whole(1, at)));
    }
    for (int i = 0; i < Shape::c_elements; ++i) {
      const MatrixCell at = Shape::c(lane, i);
      warp.c[lane][i] = static_cast<MmaSum<Input>>(whole(2, at));
    }
  }
  warp.run();
  for (int p = 0; p < products; ++p)
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        const int expected = expected_element<Shape>({row, column, p});
        const Fragment fragment = mma_shape<Shape>("", "").c;
        const Holder holder = holder_of(fragment, {row, column, p});
        CHECK(warp.d[holder.lane][holder.element] == static_cast<MmaSum<Input>>(expected));
      }
}

}  // namespace

TEST_CASE("every instruction multiplies the matrices that its 32 lanes hold") {
  check_product<M16N8K16, float16>();
  check_product<M16N8K16, bfloat16>();
  check_product<M16N8K8, float16>();
  check_product<M16N8K8, bfloat16>();
  check_product<M16N8K8Tf32, Tf32>();
  check_product<M16N8K4Tf32, Tf32>();
  check_product<M16N8K32, int8_t>();
  check_product<M16N8K32, float8_e4m3>();
  check_product<M16N8K32, float8_e5m2>();
  check_product<M8N8K4F64, double>();
  check_product<M8N8K4Volta, float16>();
}

TEST_CASE("the first element lies in the lowest bits of a register") {
  const uint32_t halves[] = {0x3f80'4000u, 0xbf80'0000u};  // bf16: 2, 1, 0, -1
  CHECK(element_of<bfloat16>(halves, 0) == 2);
  CHECK(element_of<bfloat16>(halves, 1) == 1);
  CHECK(element_of<bfloat16>(halves, 3) == -1);
  const uint32_t bytes[] = {0x80'7f'ff'01u};
  CHECK(element_of<int8_t>(bytes, 0) == 1);
  CHECK(element_of<int8_t>(bytes, 1) == -1);
  CHECK(element_of<int8_t>(bytes, 2) == 127);
  CHECK(element_of<int8_t>(bytes, 3) == -128);
}

TEST_CASE("products are exact, sums are f32: what a bf16 sum would lose stays") {
  Warp<M16N8K16, bfloat16> warp;
  warp.c[0][0] = 256;  // bf16 has 8 bits: 256 + 1 would be 256 again
  warp.put(warp.a[0], 0, bfloat16(1.0f));
  warp.put(warp.b[0], 0, bfloat16(1.0f));
  warp.run();
  CHECK(warp.d[0][0] == 257);
  warp.put(warp.a[0], 0, bfloat16(1.0078125f));  // (1 + 2^-7)^2 needs 15 bits
  warp.put(warp.b[0], 0, bfloat16(1.0078125f));
  warp.c[0][0] = 0;
  warp.run();
  CHECK(warp.d[0][0] == 1.01568603515625f);
}

TEST_CASE("tf32 ignores the last 13 bits, s8 sums wrap around, NaN spreads over its row") {
  const uint32_t almost_two[] = {0x3fffffffu};
  CHECK(element_of<Tf32>(almost_two, 0) == 1.9990234375f);

  Warp<M16N8K32, int8_t> integers;
  integers.c[0][0] = std::numeric_limits<int32_t>::max();
  integers.put(integers.a[0], 0, int8_t{1});
  integers.put(integers.b[0], 0, int8_t{1});
  integers.run();
  CHECK(integers.d[0][0] == std::numeric_limits<int32_t>::min());

  Warp<M16N8K16, float16> floats;
  floats.put(floats.a[4], 0, float16(std::numeric_limits<float>::quiet_NaN()));  // row 1
  floats.run();
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      CHECK((floats.d[lane][i] != floats.d[lane][i]) == (M16N8K16::c(lane, i).row == 1));
}

TEST_CASE("the result may replace the accumulator") {
  Warp<M16N8K16, bfloat16> warp;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) warp.put(warp.a[lane], i, bfloat16(1.0f));
    for (int i = 0; i < 4; ++i) warp.put(warp.b[lane], i, bfloat16(1.0f));
  }
  MmaLane<bfloat16> lanes[32];
  for (int lane = 0; lane < 32; ++lane)
    lanes[lane] = {warp.a[lane], warp.b[lane], warp.d[lane], warp.d[lane]};
  for (int step = 1; step <= 3; ++step) {
    run_mma<M16N8K16, bfloat16>(lanes);
    CHECK(warp.d[17][3] == 16.0f * static_cast<float>(step));
  }
}
