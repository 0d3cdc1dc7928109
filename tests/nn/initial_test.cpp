#include "yotta/nn/initial.hpp"

#include <doctest/doctest.h>

#include "yotta/core/random.hpp"
#include "yotta/nn/parameter.hpp"

using namespace yotta;

TEST_CASE("a part of a matrix starts with the whole matrix's values") {
  const int64_t rows = 5, columns = 7;
  const ParameterPtr whole =
      make_parameter("w", {rows, columns}, true, normal(0.02), 42, DType::f32);
  CHECK(whole->value.item({1, 3}) == static_cast<float>(0.02 * Random(42, "w").normal(10)));

  const ParameterPtr lower = make_parameter("w", {.rows = 2, .columns = columns, .first_row = 3},
                                            true, normal(0.02), 42, DType::f32);
  CHECK(lower->value.values() == whole->value.rows(3, 5).values());

  const ShardRange part{rows, 3, 0, 4, rows, columns};
  const ParameterPtr right = make_parameter("w", part, true, normal(0.02), 42, DType::f32);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < 3; ++c)
      CHECK(right->value.item({r, c}) == whole->value.item({r, 4 + c}));
}

TEST_CASE("values depend on the seed and the name, and are about normal") {
  const auto made = [](const char* name, uint64_t seed) {
    return make_parameter(name, {100, 100}, true, normal(2), seed, DType::f64)->value.values();
  };
  CHECK(made("a", 1) == made("a", 1));
  CHECK(made("a", 1) != made("b", 1));
  CHECK(made("a", 1) != made("a", 2));
  double sum = 0, squares = 0;
  for (const double x : made("a", 1)) sum += x, squares += x * x;
  CHECK(sum / 10000 == doctest::Approx(0).epsilon(0.1));
  CHECK(squares / 10000 == doctest::Approx(4).epsilon(0.05));
}

TEST_CASE("constants, vectors and no rows at all") {
  CHECK(make_parameter("b", {1, 3}, false, ones(), 0, DType::f32)->value.values() ==
        std::vector<double>{1, 1, 1});
  CHECK(make_parameter("b", {1, 3}, false, zeros(), 0, DType::f32)->value.ndim() == 1);
  CHECK(make_parameter("w", {0, 3}, true, normal(1), 0, DType::f32)->value.numel() == 0);
}
