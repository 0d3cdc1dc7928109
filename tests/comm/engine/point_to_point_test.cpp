#include "yotta/comm/engine/point_to_point.hpp"

#include "support/rank_errors.hpp"

using namespace yotta;

TEST_CASE("data must have an address if it has elements, and no negative count") {
  const Where where = Where::current();
  const float x = 1;
  const auto* bytes = reinterpret_cast<const std::byte*>(&x);
  expect_data({bytes, 1, DType::f32}, "x", where);
  expect_data({nullptr, 0, DType::f32}, "x", where);
  CHECK_THROWS_WITH_AS(expect_data({nullptr, 1, DType::f32}, "x", where),
                       doctest::Contains("x has 1 elements but no address"), Error);
  CHECK_THROWS_WITH_AS(expect_data({bytes, -1, DType::f32}, "x", where),
                       doctest::Contains("negative count"), Error);
}

TEST_CASE("ranks are those of the communicator") {
  expect_rank(0, 1, "root", Where::current());
  CHECK_THROWS_AS(expect_rank(1, 1, "root", Where::current()), Error);
  CHECK_THROWS_AS(expect_rank(-1, 1, "root", Where::current()), Error);
}

TEST_CASE("a buffered send outlives its caller's buffer, and even its rank") {
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 0) {
      for (int32_t i = 0; i < 20; ++i) {
        const std::vector<int32_t> gone(100, i);
        world.send(gone, 1, i % 2);
      }
      return;
    }
    std::vector<int32_t> x(100);
    for (const int32_t tag : {1, 0})
      for (int32_t i = tag; i < 20; i += 2) {
        world.recv(x, 0, tag);
        CHECK(x[99] == i);
      }
  });
}
