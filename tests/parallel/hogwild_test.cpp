#include "yotta/parallel/hogwild.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// 60000 writes, played; and raced on real threads.
HogwildProblem problem(int touched) {
  return {.examples = std::min(4000, 60000 / touched), .touched = touched};
}
HogwildRun played(int touched, int threads, HogwildWrites writes) {
  return play_hogwild(problem(touched), threads, 60000 / touched, 0.1 / touched, writes);
}
HogwildRun raced(int touched, int threads, HogwildWrites writes) {
  return race_hogwild(problem(touched), threads, 60000 / touched, 0.1 / touched, writes);
}
double share(const HogwildRun& run) {
  return static_cast<double>(run.lost) / static_cast<double>(run.writes);
}
}  // namespace

TEST_CASE("a write that others' writes stand in the place of is lost, and counted once") {
  // Threads A and B read; B writes 1, then A writes 10, of what it had read before: B's is lost.
  HogwildWeights weights(1);
  const HogwildWeights::Read a = weights.read(0), b = weights.read(0);
  weights.overwrite(0, b, 1);
  weights.overwrite(0, a, 10);
  CHECK(weights.read(0).value == 10);
  CHECK(weights.kept() == 1);
  // A reads; B, C and B write, each what the one before has left; then A, and C after it.
  const HogwildWeights::Read early = weights.read(0);
  for (int i = 0; i < 3; ++i) weights.overwrite(0, weights.read(0), 1);
  CHECK(weights.read(0).value == 13);
  weights.overwrite(0, early, 100);
  weights.overwrite(0, weights.read(0), 1000);
  CHECK(weights.read(0).value == 1110);  // 10 + 100 + 1000: the three are lost, each once
  CHECK(weights.kept() == 3);            // of 7 writes
  // Two that have read before: the second one's write undoes the first one's and what it had
  // undone.
  const HogwildWeights::Read x = weights.read(0), y = weights.read(0);
  weights.overwrite(0, weights.read(0), 1);
  weights.overwrite(0, x, 2);
  weights.overwrite(0, y, 4);
  CHECK(weights.read(0).value == 1114);
  CHECK(weights.kept() == 4);  // of 10
}

TEST_CASE("an addition is lost by nobody else's addition") {
  HogwildWeights weights(2);
  weights.add(1, 1), weights.add(1, 2);
  CHECK(weights.read(1).value == 3);
  CHECK(weights.kept() == 2);
}

TEST_CASE("few writes are lost where gradients are sparse, and many where they are dense") {
  const HogwildRun alone = played(3, 1, HogwildWrites::overwrite);
  CHECK(alone.lost == 0);
  CHECK(alone.writes == 60000);
  CHECK(played(1000, 1, HogwildWrites::overwrite).lost == 0);  // no weight twice in an example
  const HogwildRun sparse = played(3, 8, HogwildWrites::overwrite);
  const HogwildRun dense = played(100, 8, HogwildWrites::overwrite);
  // Seven others write 3 of 1000 weights each between a read and its write: 2.1% at most.
  CHECK(share(sparse) < 0.021);
  CHECK(share(sparse) > 0.015);
  CHECK(share(dense) > 0.3);
  CHECK(share(dense) < 1 - std::pow(0.9, 7));
  CHECK(played(100, 8, HogwildWrites::add).lost == 0);
  CHECK(std::abs(sparse.loss / alone.loss - 1) < 0.1);
}

TEST_CASE("played: the same run every time") {
  const HogwildRun one = played(30, 4, HogwildWrites::overwrite);
  const HogwildRun two = played(30, 4, HogwildWrites::overwrite);
  CHECK(one.loss == two.loss);
  CHECK(one.lost == two.lost);
}

TEST_CASE("on real threads additions lose nothing, and one thread is the played one") {
  const HogwildRun add = raced(100, 4, HogwildWrites::add);
  CHECK(add.lost == 0);
  CHECK(add.writes == 60000);
  CHECK(std::isfinite(add.loss));
  const HogwildRun alone = raced(30, 1, HogwildWrites::overwrite);
  CHECK(alone.lost == 0);
  CHECK(alone.loss == played(30, 1, HogwildWrites::overwrite).loss);
  const HogwildRun over =
      raced(100, 4, HogwildWrites::overwrite);  // how many: the machine's matter
  CHECK(over.lost >= 0);
  CHECK(over.lost < over.writes);
}

TEST_CASE("what cannot be played is refused") {
  const auto message = [](HogwildProblem problem, int threads, double rate) {
    return message_of([&] { play_hogwild(problem, threads, 10, rate, HogwildWrites::add); });
  };
  CHECK(contains(message({}, 0, 0.1), "with 0 threads"));
  CHECK(contains(message({.touched = 0}, 1, 0.1), "examples of 0 weights"));
  CHECK(contains(message({.weights = 2}, 1, 0.1), "2 weights, of which an example touches 3"));
  CHECK(contains(message({}, 1, std::nan("")), "a rate of nan"));
  CHECK(contains(message_of([] { race_hogwild({}, 0, 1, 0.1, HogwildWrites::add); }),
                 "with 0 threads"));
}
