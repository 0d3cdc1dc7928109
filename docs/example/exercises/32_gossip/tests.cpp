// The graded cases of exercise 32.
#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"

using namespace yotta;
using exercise::expect;
using exercise::run;
using exercise::solution;

namespace {

// Four ranks start with 9, 0, 0, 0 (see the header); what rank `rank` has after so many rounds.
void expect_after(int rounds, const Numbers& expected) {
  Numbers actual(4);
  run(4, [&](Communicator& world) {
    Tensor x = Tensor::full({1}, world.rank() == 0 ? 9 : 0, DType::f64);
    solution.gossip(x, world, rounds);
    actual[static_cast<size_t>(world.rank())] = x.item({0});
  });
  Clues clues;
  clues.what = fmt::format("after round {}, by rank", rounds);
  expect(compare(actual, expected, 1e-12, clues));
}

}  // namespace

TEST_CASE("32.1: a round is the mean of three ranks") {
  expect_after(1, {3, 3, 0, 3});
  expect_after(2, {3, 2, 2, 2});
}
