// A walk adds up what is computed, waited for and held.
#include "yotta/plan/step_walk.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
StepWalk on_ideal_chip() {
  static const Chip chip = ideal_chip(100);
  static const Efficiency half{.matmul = 0.5, .attention = 1, .attention_backward = 0.25};
  return {chip, half};
}
}  // namespace

TEST_CASE("operations take their FLOPs over the share of the peak that kernels reach") {
  StepWalk walk = on_ideal_chip();
  walk.op({"linear", DType::f32, 100, 0, 0});
  CHECK(walk.time().computed == doctest::Approx(2).scale(0));
  walk.op({"flash_attention", DType::f32, 100, 0, 0}, 3);
  CHECK(walk.time().computed == doctest::Approx(5).scale(0));
  walk.op({"flash_attention_backward", DType::f32, 100, 0, 0});
  CHECK(walk.take_time().computed == doctest::Approx(9).scale(0));
  CHECK(walk.time().seconds() == 0);
}

TEST_CASE("a message beside computing shows where it takes longer, more so at a shared port") {
  StepWalk walk = on_ideal_chip();
  walk.beside(Exposed::cp, 5, 1, 3);  // 4 s beside 5 s
  CHECK(walk.time().computed == 5);
  CHECK(walk.time().exposed[1] == 0);
  CHECK(walk.time().sent[1] == 3);
  CHECK(walk.time().slowed[1] == 2);  // 7 s beside 5 s
  walk.beside(Exposed::cp, 1, 1, 3);
  CHECK(walk.time().exposed[1] == 3);
  CHECK(walk.time().slowed[1] == 5);
}

TEST_CASE("live bytes, and the most of them") {
  StepWalk walk = on_ideal_chip();
  walk.hold(10);
  walk.touch(5);
  walk.drop(4);
  walk.hold(2);
  CHECK(walk.live() == 8);
  CHECK(walk.peak() == 15);
  walk.restart_memory();
  CHECK(walk.peak() == 0);
}

TEST_CASE("parts add up, and are taken several times") {
  PartTime part;
  part.computed = 1, part[Exposed::tp] = 2, part.slowed[3] = 4;
  PartTime sum = 2.0 * part;
  sum += part;
  CHECK(sum.seconds() == 9);
  CHECK(sum.slowed[3] == 12);
}
