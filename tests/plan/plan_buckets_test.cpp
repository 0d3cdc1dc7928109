// Buckets are cut, and shards held, as DDP, ZeRO and FSDP do.
#include "yotta/plan/plan_buckets.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a bucket takes what fits, and one that fits nowhere has its own") {
  const auto buckets = plan_buckets({9, 3, 3, 4, 2, 2, 2, 8, 20}, 48, 4);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].numbers() == 12);
  CHECK(buckets[1].numbers() == 11);
  CHECK(buckets[2].parameters == std::vector<int64_t>{2, 8});
  CHECK(buckets[3].numbers() == 20);
}

TEST_CASE("rank 0 holds the first p-th, parameter by parameter") {
  CHECK(first_shards({3, 4, 2, 2}, 4) == std::vector<int64_t>{3});
  CHECK(first_shards({1, 4, 2, 4}, 2) == std::vector<int64_t>{1, 4, 1});
  CHECK(first_shards({5}, 1) == std::vector<int64_t>{5});
  CHECK(shard_numbers(11, 4) == 3);
}

TEST_CASE("a unit is gathered in its type and reduced in that of sums; alone it costs nothing") {
  LayerFigures layer;
  layer.weights = {{1 << 20}, {1 << 20}};
  LayerSizes z{};
  z.width = 2, z.wide = 4, z.sum_dtype = DType::f32;
  const Kernels kernels{chip_named("h100")};
  const PlanGroup group{4, {0, 1e-9, 0}, 0};
  const PlanUnit unit = plan_unit(layer, group, z, kernels);
  CHECK(unit.gather == doctest::Approx(0.75 * 4e-9 * (1 << 20)).scale(0));
  CHECK(unit.reduce == doctest::Approx(2 * unit.gather).scale(0));
  CHECK(unit.add > 0);
  CHECK(plan_unit(layer, {1, {}, 0}, z, kernels).gather == 0);
}
