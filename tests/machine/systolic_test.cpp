#include "yotta/machine/systolic.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("what comes out below is x w, after exactly R + 2 S - 2 clocks") {
  for (const int side : {1, 2, 3, 8})
    for (const int rows : {1, 2, 7, 20}) {
      std::vector<double> w(static_cast<size_t>(side * side)), x(static_cast<size_t>(rows * side));
      for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i % 7) - 3;
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 5) - 2;
      SystolicArray array(w, side);
      const std::vector<double> y = array.multiply(x, rows);
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < side; ++j) {
          double sum = 0;
          for (int i = 0; i < side; ++i)
            sum += x[static_cast<size_t>(r * side + i)] * w[static_cast<size_t>(i * side + j)];
          CHECK(y[static_cast<size_t>(r * side + j)] == sum);
        }
      CHECK(array.clocks() == systolic_clocks(rows, side));
      CHECK(array.products() == int64_t{rows} * side * side);
      CHECK(array.multiply(x, rows) == y);  // what the first one left behind does no harm
    }
}

TEST_CASE("work moves through the array as a diagonal wave") {
  SystolicArray array(std::vector<double>(9, 1.0), 3);
  array.multiply(std::vector<double>(6, 1.0), 2);
  CHECK(array.pictures().size() == 6);
  CHECK(array.pictures()[0] == "#..\n...\n...\n");
  CHECK(array.pictures()[1] == "##.\n#..\n...\n");
  CHECK(array.pictures()[2] == ".##\n##.\n#..\n");
  CHECK(array.pictures()[5] == "...\n...\n..#\n");
}

TEST_CASE("many rows hide filling and draining") {
  CHECK(systolic_use(1, 128) == doctest::Approx(1.0 / 255));
  CHECK(systolic_use(128, 128) == doctest::Approx(128.0 / 382));
  CHECK(systolic_use(8192, 128) > 0.96);
}

TEST_CASE("sizes that do not fit are refused") {
  CHECK_THROWS_AS(SystolicArray(std::vector<double>(8), 3), Error);
  SystolicArray array(std::vector<double>(9), 3);
  CHECK_THROWS_AS(array.multiply(std::vector<double>(5), 2), Error);
  CHECK_THROWS_AS(array.multiply({}, 0), Error);
}
