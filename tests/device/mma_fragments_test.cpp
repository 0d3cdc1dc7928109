// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/mma_fragments.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace yotta;

namespace {

// The fragments once more, as formulas of g = lane / 4, t = lane % 4 and i, written out a shape at
// a time.
struct Written {
  int shape;  // index in mma_shapes
  MatrixCell (*a)(int g, int t, int i);
  MatrixCell (*b)(int g, int t, int i);
};
constexpr Written written[] = {
    {0,
     [](int g, int t, int i) {
       return MatrixCell{g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >= 4)};
     },
     [](int g, int t, int i) {
       return MatrixCell{2 * t + (i & 1) + 8 * (i >= 2), g};
     }},
    {1,
     [](int g, int t, int i) {
       return MatrixCell{g + 8 * (i >= 2), 2 * t + (i & 1)};
     },
     [](int g, int t, int i) {
       return MatrixCell{2 * t + i, g};
     }},
    {2,
     [](int g, int t, int i) {
       return MatrixCell{g + 8 * (i & 1), t + 4 * (i >= 2)};
     },
     [](int g, int t, int i) {
       return MatrixCell{t + 4 * i, g};
     }},
    {3,
     [](int g, int t, int i) {
       return MatrixCell{g + 8 * i, t};
     },
     [](int g, int t, int) {
       return MatrixCell{t, g};
     }},
    {4,
     [](int g, int t, int i) {
       return MatrixCell{g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >= 8)};
     },
     [](int g, int t, int i) {
       return MatrixCell{4 * t + (i & 3) + 16 * (i >= 4), g};
     }},
    {5,
     [](int g, int t, int) {
       return MatrixCell{g, t};
     },
     [](int g, int t, int) {
       return MatrixCell{t, g};
     }},
};

constexpr bool all_bijective() {
  for (const MmaShape& shape : mma_shapes)
    if (!is_bijective(shape.a) || !is_bijective(shape.b) || !is_bijective(shape.c)) return false;
  return true;
}
static_assert(all_bijective());

Fragment broken(MatrixCell (*cell)(int, int)) {
  Fragment fragment = mma_shapes[0].c;
  fragment.cell = cell;
  return fragment;
}

}  // namespace

TEST_CASE("every shape's fragments are the ones of the PTX ISA") {
  for (const Written& each : written) {
    const MmaShape& shape = mma_shapes[each.shape];
    CAPTURE(shape.name);
    CAPTURE(shape.inputs);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane >> 2, t = lane & 3;
      for (int i = 0; i < shape.a.elements; ++i) CHECK(shape.a.cell(lane, i) == each.a(g, t, i));
      for (int i = 0; i < shape.b.elements; ++i) CHECK(shape.b.cell(lane, i) == each.b(g, t, i));
      for (int i = 0; i < shape.c.elements; ++i)
        CHECK(shape.c.cell(lane, i) == MatrixCell{g + 8 * (i >= 2), 2 * t + (i & 1)});
    }
  }
}

TEST_CASE("Volta: eight lanes hold each of four products, accumulators in small squares") {
  for (int lane = 0; lane < 32; ++lane) {
    const int pair = lane % 16 / 4;
    for (int i = 0; i < 4; ++i) {
      const int line = lane % 4 + (lane < 16 ? 0 : 4);
      CHECK(M8N8K4Volta::a(lane, i) == MatrixCell{line, i, pair});
      CHECK(M8N8K4Volta::b(lane, i) == MatrixCell{i, line, pair});
    }
  }
  // Read from the figure: quad pair 1 is lanes 4 to 7 and 20 to 23.
  CHECK(M8N8K4Volta::c(4, 0) == MatrixCell{0, 0, 1});
  CHECK(M8N8K4Volta::c(5, 1) == MatrixCell{1, 1, 1});
  CHECK(M8N8K4Volta::c(6, 2) == MatrixCell{2, 2, 1});
  CHECK(M8N8K4Volta::c(7, 7) == MatrixCell{3, 7, 1});
  CHECK(M8N8K4Volta::c(23, 0) == MatrixCell{5, 2, 1});
}

TEST_CASE("32 lanes hold every cell once, and each cell has one holder") {
  for (const MmaShape& shape : mma_shapes)
    for (const Fragment& fragment : {shape.a, shape.b, shape.c}) {
      CAPTURE(shape.name);
      CAPTURE(fragment.name);
      CHECK(is_bijective(fragment));
      CHECK(holder_of(fragment, {0, 0}) == Holder{0, 0});
      CHECK(holder_of(fragment, fragment.cell(29, fragment.elements - 1)) ==
            Holder{29, fragment.elements - 1});
      CHECK(holder_of(fragment, {fragment.rows, 0}) == Holder{});
    }
}

TEST_CASE("a wrong map is no bijection") {
  CHECK(!is_bijective(broken([](int lane, int i) {
    return MatrixCell{lane / 4, 2 * (lane % 4) + i % 2};
  })));
  CHECK(!is_bijective(broken([](int lane, int i) {
    return MatrixCell{lane / 4 + 8 * (i / 2), lane % 4 + i};
  })));
  CHECK(!is_bijective(broken([](int lane, int i) { return MatrixCell{lane, i}; })));
  Fragment short_of_one = mma_shapes[0].c;
  short_of_one.elements = 3;
  CHECK(!is_bijective(short_of_one));
}

TEST_CASE("FLOPs of an instruction are 2 m n k") {
  CHECK(mma_flops<M16N8K16>() == 4096);
  CHECK(mma_flops<M16N8K8Tf32>() == 2048);
  CHECK(mma_flops<M16N8K32>() == 8192);
  CHECK(mma_flops<M8N8K4F64>() == 512);
  CHECK(mma_flops<M8N8K4Volta>() == 4 * 512);
}
