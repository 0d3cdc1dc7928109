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

TEST_CASE("in turns: the host's list grows with the ranks, and the network hides behind copies") {
  LayerFigures layer;
  layer.weights = {{1 << 20}, {99'999}, {1 << 20}};  // the one in the middle stays whole
  layer.input.computed = 1;                          // a sum's list hides behind backward
  LayerSizes z{};
  z.width = 2, z.wide = 4, z.sum_dtype = DType::f32;
  const Kernels free_kernels{ideal_chip(1e15)};
  for (const auto& [p, beta] : {std::pair{64, 0.0}, std::pair{64, 1e-9}, std::pair{8, 1e-9}}) {
    const PlanGroup group{p, {0, beta, 0}, 0};
    PlanUnit unit = plan_unit(layer, group, z, free_kernels);
    const double network = collective_seconds(Operation::all_gather, group, 2.0 * (1 << 20));
    take_turns(unit, group, z, free_kernels);
    const double gather = p * 6e-6 + std::max(p * 14.2e-6, network);
    CAPTURE(p);
    CHECK(unit.forward_turn == doctest::Approx(2 * gather).epsilon(1e-3).scale(0));
    CHECK(unit.backward_turn == doctest::Approx(2 * (gather + network)).epsilon(1e-3).scale(0));
    CHECK(unit.gather + unit.reduce == 0);
    layer.input.computed = 0;
    take_turns(unit, group, z, free_kernels);
    CHECK(unit.backward_turn > 2 * (gather + network + p * 26e-6));
    layer.input.computed = 1;
  }
  PlanUnit many{&layer};  // lesson 28: 45 ms for one matrix
  take_turns(many, {2240, {0, 0, 0}, 0}, z, free_kernels);
  CHECK(many.forward_turn / 2 == doctest::Approx(45e-3).epsilon(0.01).scale(0));
}

TEST_CASE("in turns: of what runs again a matrix stays if few numbers are used in between") {
  LayerFigures layer;
  layer.weights = {{400'000'000}, {200'000'000}, {100'000'000}};  // the last of the block first
  layer.input.computed = 1;
  const PlanGroup group{64, {0, 0, 0}, 0};
  const Kernels free_kernels{ideal_chip(1e15)};
  LayerSizes z{};
  z.width = 2, z.wide = 4, z.sum_dtype = DType::f32;
  const auto gathers = [&] {
    PlanUnit unit{&layer};
    take_turns(unit, group, z, free_kernels);
    return unit.backward_turn / (unit.forward_turn / 3);
  };
  CHECK(gathers() == doctest::Approx(3).scale(0));
  layer.again = true;  // 0.8e9 numbers are used after the second, 1.2e9 after the first
  CHECK(gathers() == doctest::Approx(4).scale(0));
}

TEST_CASE("in turns: a block of GPT-3 makes 4 trips forward, 7 and 4 sums backward") {
  constexpr int64_t square = 12288 * 12288;
  LayerFigures layer;
  layer.weights = {{4 * square}, {4 * square}, {square}, {3 * square}};
  layer.again = true, layer.input.computed = 100;
  LayerSizes z{};
  z.width = 2, z.wide = 4, z.sum_dtype = DType::f32;
  PlanUnit unit{&layer};
  take_turns(unit, {64, {1, 0, 0}, 0}, z, {ideal_chip(1e15)});  // 6 or 63 s a trip, whatever size
  CHECK(unit.backward_turn / unit.forward_turn == doctest::Approx(11.0 / 4).epsilon(1e-3).scale(0));
}
