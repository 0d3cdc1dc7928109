#include "yotta/machine/stragglers.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/critical_path.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

namespace {

void step(Communicator& world) {
  std::vector<float> x(8);
  charge({"work", DType::f32, 4, 0, 0});
  world.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
}
Timed run(const Stragglers& stragglers, int p = 4) {
  return run_on(ideal(16, 1, 8), p, step, {.stragglers = stragglers});
}

}  // namespace

TEST_CASE("one slow rank makes all wait, and is found") {
  CHECK(run({}).seconds() == 4 + 6);
  const Timed slow = run({.slow_ranks = {{2, 1.5}}});
  for (int rank = 0; rank < 4; ++rank) CHECK(slow.seconds(rank) == 6 + 6);
  CHECK(waited_for(slow.trace, 0)[0].rank == 2);
  CHECK(run({.slow_ranks = {{2, 1.5}, {2, 2}}}).seconds() == 12 + 6);
}

TEST_CASE("one slow link sets the pace of a ring, in either direction") {
  for (const SlowLink& link : {SlowLink{1, 2, 3}, SlowLink{2, 1, 3}})
    CHECK(run({.slow_links = {link}}).seconds() == 4 + 18);
  CHECK(run({.slow_links = {{0, 2, 3}}}).seconds() == 4 + 6);  // not in the ring
}

TEST_CASE(
    "jitter is seeded: the same seed, the same timeline; never faster, never beyond its bound") {
  const Timed one = run({.jitter = 0.1, .seed = 1}), again = run({.jitter = 0.1, .seed = 1});
  CHECK(one.trace == again.trace);
  CHECK(run({.jitter = 0.1, .seed = 2}).seconds() != one.seconds());
  CHECK((one.seconds() > 10 && one.seconds() < 11));
  CHECK(one.seconds(0) > 0);
}

TEST_CASE("the more ranks, the later the slowest: a step waits for the largest of p draws") {
  const auto mean = [](int p) {
    double sum = 0;
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const Timed timed = run({.jitter = 1, .seed = seed}, p);
      double last = 0;
      for (int rank = 0; rank < p; ++rank) last = std::max(last, busy_seconds(timed.trace, rank));
      sum += last / 30;
    }
    return sum;
  };
  const double two = mean(2), eight = mean(8);  // expected: 4 (1 + p / (p + 1))
  CHECK(std::abs(two - 4 * (1 + 2.0 / 3)) < 0.4);
  CHECK(std::abs(eight - 4 * (1 + 8.0 / 9)) < 0.2);
}

TEST_CASE("with disturbances nothing is mirrored") {
  CHECK(contains(message_of([] {
                   run_on(ideal(), 1,
                          [](Communicator& world) {
                            world.mirrored({0, 1});
                          },
                          {.stragglers = {.jitter = 0.1}});
                 }),
                 "are not the same for all images"));
}
