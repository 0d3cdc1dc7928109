#include "yotta/nn/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/nn/sgd.hpp"

using namespace yotta;

namespace {
ParameterPtr one(double value, double grad, DType dtype = DType::f32) {
  const ParameterPtr made = make_parameter("w", {1, 1}, true, {value, 0}, 0, dtype);
  made->gradient().fill(grad);
  return made;
}
}  // namespace

// 1 + 2^-10 rounds to 1 in bf16: without a master copy this weight would never move.
TEST_CASE("small steps add up on the f32 master of a bf16 weight") {
  const ParameterPtr w = one(1, -1, DType::bf16);
  Sgd sgd({w});
  for (int i = 0; i < 3; ++i) sgd.step(0x1p-10);
  CHECK(w->value.item({0, 0}) == 1);
  CHECK(sgd.slots()[0].master.item({0, 0}) == 1 + 3 * 0x1p-10);
  for (int i = 0; i < 5; ++i) sgd.step(0x1p-10);
  CHECK(w->value.item({0, 0}) == 1 + 0x1p-7);
}

TEST_CASE("state is counted as optimizer memory, in f32; a gradient never made is skipped") {
  RankContext rank;
  const ContextScope scope(rank);
  const ParameterPtr used = one(1, 1, DType::bf16);
  const ParameterPtr unused = make_parameter("u", {4, 4}, true, ones(), 0, DType::f32);
  Sgd sgd({used, unused}, {.momentum = 0.9});
  CHECK(rank.ledger.memory()->live(MemoryKind::optimizer) == 4 + 4 + 64);
  sgd.step(0.5);
  CHECK(used->value.item({0, 0}) == 0.5);
  CHECK(unused->value.item({3, 3}) == 1);
  CHECK(sgd.steps() == 1);
}

TEST_CASE("on meta a step has a cost and no data") {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const ParameterPtr w = make_parameter("w", {1 << 20, 1 << 20}, true, normal(1), 0, DType::f32);
  w->gradient();
  Sgd sgd({w}, {.momentum = 0.9});
  sgd.step(0.1);
  CHECK(rank.ledger.op("sgd").bytes_read == 3 * 0x1p42);
}

TEST_CASE("warm-up is a straight line to the peak, then half a cosine to the floor") {
  const Schedule lr{.peak = 1, .floor = 0.1, .warmup = 4, .steps = 24};
  CHECK(lr(0) == 0.25);
  CHECK(lr(3) == 1);
  CHECK(lr(4) == 1);
  CHECK(lr(14) == doctest::Approx(0.55));  // half way
  CHECK(lr(9) == doctest::Approx(0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
  CHECK(lr(24) == doctest::Approx(0.1));
  CHECK(lr(1000) == doctest::Approx(0.1));
}

TEST_CASE("no warm-up, and a run that is all warm-up") {
  CHECK(Schedule{.peak = 2, .floor = 1, .warmup = 0, .steps = 10}(0) == 2);
  CHECK(Schedule{.peak = 2, .floor = 1, .warmup = 10, .steps = 10}(9) == 2);
  CHECK(Schedule{.peak = 2, .floor = 1, .warmup = 10, .steps = 10}(11) == 1);
}
