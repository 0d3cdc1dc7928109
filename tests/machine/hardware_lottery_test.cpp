#include "yotta/machine/hardware_lottery.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

std::vector<float> drawn(const char* name, int64_t rows, int64_t k, float centre) {
  std::vector<float> all;
  for (uint64_t i = 0; i < static_cast<uint64_t>(rows * k); ++i)
    all.push_back(centre + static_cast<float>(Random(7, name).uniform(i)));
  return all;
}

struct Case {
  int64_t m, n, k;
  float centre = 0;
};

using Distances = void (*)(Points, Points, MatrixView<float>);
void by_matmul(Points x, Points y, MatrixView<float> d) { l2_by_matmul(x, y, d); }
void l2_direct(Points x, Points y, MatrixView<float> d) { l2_term_by_term(x, y, d); }
void l1_direct(Points x, Points y, MatrixView<float> d) { l1_term_by_term(x, y, d); }

// The largest error, against double, as a share of the largest distance.
double error_of(Distances distances, bool squares, Case c) {
  const std::vector<float> x = drawn("x", c.m, c.k, c.centre), y = drawn("y", c.n, c.k, c.centre);
  std::vector<float> d(static_cast<size_t>(c.m * c.n));
  distances(row_major(x.data(), c.m, c.k), row_major(y.data(), c.n, c.k),
            row_major(d.data(), c.m, c.n));
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double wanted = 0;
      for (int64_t l = 0; l < c.k; ++l) {
        const double apart = static_cast<double>(x[static_cast<size_t>(i * c.k + l)]) -
                             static_cast<double>(y[static_cast<size_t>(j * c.k + l)]);
        wanted += squares ? apart * apart : std::abs(apart);
      }
      const double error =
          std::abs(static_cast<double>(d[static_cast<size_t>(i * c.n + j)]) - wanted);
      if (!(error <= worst)) worst = error;  // a NaN stays
      largest = std::max(largest, wanted);
    }
  return worst / std::max(largest, 1e-30);
}

const Case cases[] = {{1, 1, 1}, {8, 32, 16}, {9, 33, 17}, {40, 70, 100}, {3, 200, 5}};

}  // namespace

TEST_CASE("L2 by a matmul and term by term, and L1, as in double, for sizes that do not divide") {
  for (const Case& c : cases) {
    CAPTURE(c.m);
    CHECK(error_of(by_matmul, true, c) < 2e-6);
    CHECK(error_of(l2_direct, true, c) < 2e-6);
    CHECK(error_of(l1_direct, false, c) < 2e-6);
  }
}

TEST_CASE("far from the origin the identity keeps its digits, since the points are moved") {
  const Case far = {20, 30, 16, 1000};
  CHECK(error_of(by_matmul, true, far) < 2e-6);
  CHECK(error_of(l2_direct, true, far) < 2e-6);
}

TEST_CASE("a distance is never below 0, and a point's distance to itself is next to nothing") {
  const std::vector<float> x = drawn("x", 50, 64, 3);
  std::vector<float> d(50 * 50);
  const Points points = row_major(x.data(), 50, 64);
  l2_by_matmul(points, points, row_major(d.data(), 50, 50));
  for (const float each : d) CHECK(each >= 0);
  for (size_t i = 0; i < 50; ++i) CHECK(d[i * 51] < 1e-5f);
}

TEST_CASE("a NaN in a point is in its distances, and in no others") {
  std::vector<float> x = drawn("x", 3, 4, 0);
  const std::vector<float> y = drawn("y", 5, 4, 0);
  x[4] = std::numeric_limits<float>::quiet_NaN();
  for (const Distances distances : {by_matmul, l2_direct, l1_direct}) {
    std::vector<float> d(15);
    distances(row_major<const float>(x.data(), 3, 4), row_major(y.data(), 5, 4),
              row_major(d.data(), 3, 5));
    for (size_t i = 0; i < d.size(); ++i) CHECK(std::isnan(d[i]) == (i / 5 == 1));
  }
}

TEST_CASE("without dimensions all distances are 0, and without points there are none") {
  for (const Distances distances : {by_matmul, l2_direct, l1_direct}) {
    std::vector<float> d(6, 7);
    distances(Points{nullptr, 2, 0, 0, 1}, Points{nullptr, 3, 0, 0, 1}, row_major(d.data(), 2, 3));
    for (const float each : d) CHECK(each == 0);
    const std::vector<float> x(8);
    d.assign(6, 7);
    distances(Points{nullptr, 0, 4, 4, 1}, row_major(x.data(), 2, 4), row_major(d.data(), 0, 2));
    distances(row_major(x.data(), 2, 4), Points{nullptr, 0, 4, 4, 1}, row_major(d.data(), 2, 0));
    for (const float each : d) CHECK(each == 7);
  }
}

TEST_CASE("points in other dimensions are refused") {
  const std::vector<float> x(12);
  std::vector<float> d(9);
  const std::string text = yotta_test::message_of([&] {
    l1_term_by_term(row_major(x.data(), 3, 4), row_major(x.data(), 3, 3),
                    row_major(d.data(), 3, 3));
  });
  CHECK(yotta_test::contains(text, "x is (3, 4), y is (3, 3), d is (3, 3)"));
}

TEST_CASE("the lottery: FLOPs 16 and 15 to one on an A100 and an H100, instructions twice that") {
  const auto ratio = [](const ChipUnits& chip) { return chip.matrix / chip.others; };
  CHECK(ratio(chip_units[0]) == doctest::Approx(16).epsilon(1e-3));
  CHECK(ratio(chip_units[1]) == doctest::Approx(14.77).epsilon(1e-3));
  for (const ChipUnits& chip : chip_units) {
    CAPTURE(chip.name);
    const double m = 1 << 15, n = 1 << 15, k = 1 << 12;  // compute-bound on all of them
    CHECK(l1_seconds(chip, m, n, k) / l2_seconds(chip, m, n, k) ==
          doctest::Approx(ratio(chip) * chip.counted));
  }
}

TEST_CASE("few dimensions: both distances wait for memory, and neither wins") {
  const ChipUnits& h100 = chip_units[1];
  CHECK(l1_seconds(h100, 1 << 15, 1 << 15, 8) == l2_seconds(h100, 1 << 15, 1 << 15, 8));
}

TEST_CASE("the chips are those of the list that they are named after") {
  for (const ChipUnits& chip : chip_units) {
    if (std::string_view(chip.name) == "trainium2") continue;
    CHECK(chip.matrix == chip_named(chip.name).bf16);
    CHECK(chip.bandwidth == chip_named(chip.name).bandwidth);
  }
}
