// nvcc compiles this file too.
#include "yotta/device/device_memory.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace yotta;

TEST_CASE("an array goes to the device and comes back") {
  const std::vector<float> host = {1.0f, 2.0f, 3.0f};
  DeviceArray<float> x(host);
  CHECK(x.size() == 3);
  CHECK(x.to_host() == host);
  x.copy_from(std::vector<float>{4.0f, 5.0f, 6.0f});
  CHECK(x.to_host() == std::vector<float>{4.0f, 5.0f, 6.0f});
  x.fill_zero();
  CHECK(x.to_host() == std::vector<float>(3, 0.0f));
  CHECK_THROWS_AS(x.copy_from(std::vector<float>(4)), Error);
}

TEST_CASE("an array may be empty, and moves") {
  DeviceArray<int> none(0);
  CHECK(none.to_host().empty());
  DeviceArray<int> x(std::vector<int>{7});
  const int* const place = x.data();
  DeviceArray<int> y(std::move(x));
  CHECK(y.data() == place);
  none = std::move(y);
  CHECK(none.to_host() == std::vector<int>{7});
}
