#include "yotta/core/random.hpp"

#include <doctest/doctest.h>

using namespace yotta;

// The known answers that the Random123 library is distributed with (kat_vectors, philox4x32-10).
TEST_CASE("philox gives the published words") {
  CHECK(philox({0, 0, 0, 0}, 0, 0) == Block128{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t f = 0xffffffff;
  CHECK(philox({f, f, f, f}, f, f) == Block128{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
        Block128{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a value depends on seed, name and index only") {
  const Random a(1, "wte"), b(1, "wpe"), c(2, "wte");
  CHECK(a.bits(7) == Random(1, "wte").bits(7));
  CHECK(a.bits(7) != b.bits(7));
  CHECK(a.bits(7) != c.bits(7));
  CHECK(a.bits(7) != a.bits(6));
  CHECK(a.bits(uint64_t{1} << 40) != a.bits(0));
}

TEST_CASE("moments of uniform, normal and below") {
  const Random random(3, "moments");
  const int count = 100000;
  double mean = 0, normal_mean = 0, normal_square = 0, product = 0;
  int histogram[5] = {};
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<uint64_t>(i);
    const double u = random.uniform(at), z = random.normal(at);
    CHECK_UNARY(u >= 0 && u < 1);
    mean += u / count;
    normal_mean += z / count;
    normal_square += z * z / count;
    product += i % 2 == 0 ? z * random.normal(at + 1) / count : 0;
    ++histogram[random.below(at, 5)];
  }
  CHECK(mean == doctest::Approx(0.5).epsilon(0.01));
  CHECK(std::abs(normal_mean) < 0.01);
  CHECK(normal_square == doctest::Approx(1).epsilon(0.02));
  CHECK(std::abs(product) < 0.01);  // the two normals of a pair are independent
  for (const int hits : histogram) CHECK(hits == doctest::Approx(count / 5).epsilon(0.03));
}
