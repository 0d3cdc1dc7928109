#include "yotta/device/compile/lanes.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

template <class Real>
void check_exp(double tolerance) {
  using L = Lanes<Real>;
  for (int i = -800; i <= 800; ++i) {
    const Real x = static_cast<Real>(i * 0.1);
    const double expected = std::exp(static_cast<double>(x));
    if (!(std::abs(L::exp_of(L::spread(x))[0] - expected) <= tolerance * expected))
      CHECK(L::exp_of(L::spread(x))[0] == expected);
  }
  CHECK(L::exp_of(L::spread(-L::infinity()))[0] == 0);
  CHECK(std::isnan(L::exp_of(L::spread(static_cast<Real>(NAN)))[0]));
}

}  // namespace

TEST_CASE("exp is right to the last digits") {
  check_exp<float>(3e-7);
  check_exp<double>(1e-15);
}

TEST_CASE("folds take all lanes, and among leaves out those beyond the end") {
  using L = Lanes<float>;
  const L::V v = L::count_from(1);  // 1, 2, ..., 16
  CHECK(L::fold_sum(v) == 136);
  CHECK(L::fold_max(v) == 16);
  CHECK(L::fold_sum(L::among(v, 3, L::spread(0))) == 6);
  CHECK(L::fold_max(L::among(v, 3, L::spread(-L::infinity()))) == 3);
}

TEST_CASE("the last vector of a row reads and writes what is there") {
  using L = Lanes<double>;
  double from[5] = {1, 2, 3, 4, 5}, to[5] = {9, 9, 9, 9, 9};
  L::store(to, L::load(from, 3), 4);
  CHECK(to[2] == 3);
  CHECK(to[3] == 0);
  CHECK(to[4] == 9);
}

TEST_CASE("keep draws what Random draws, across a carry too") {
  const Random random(7, "x");
  const uint64_t name = hash_name("x");
  for (const long first : {0L, 13L, (1L << 34) - 5}) {
    Lanes<float>::Draws draws;
    for (long from = first; from < first + 100; from += 16) {
      const Lanes<float>::V kept =
          Lanes<float>::keep(draws, from, 1u << 30, 7, 0, static_cast<unsigned>(name),
                             static_cast<unsigned>(name >> 32));
      for (long i = 0; i < 16; ++i)
        CHECK((kept[i] == 1) == (random.bits(static_cast<uint64_t>(from + i)) >= 1u << 30));
    }
  }
}

TEST_CASE("the text is the code") {
  const std::string text = lanes_text;
  CHECK(text.find("static inline V larger(V a, V b) { return a > b ? a : b; }") != text.npos);
}
