// Griewank and Walther (2000), Algorithm 799: Revolve. Fewest forward steps t(l, s) for l layers
// and s checkpoints, as published; the formula and the steps of the schedule both.
#include <doctest/doctest.h>

#include "yotta/parallel/revolve.hpp"

using namespace yotta;

TEST_CASE("Revolve: published forward steps t(l, s)") {
  struct Row {
    int64_t l, s, steps;
  };
  for (const Row& row :
       {Row{10, 3, 15}, Row{20, 3, 45}, Row{32, 5, 68}, Row{64, 6, 156}, Row{128, 8, 329}}) {
    CAPTURE(row.l);
    CHECK(revolve_steps(row.l, row.s) == row.steps);
    CHECK(forward_runs(revolve_schedule(row.l, row.s)) == row.steps);
  }
}

TEST_CASE(
    "Revolve: beta(s, r) = C(s + r, s) is the longest chain for r repetitions, and not one more") {
  for (int64_t s = 1; s <= 8; ++s)
    for (int64_t r = 1; r <= 5; ++r) {
      const int64_t longest = revolve_beta(s, r);
      CHECK(revolve_repetitions(longest, s) == r);
      CHECK(revolve_repetitions(longest + 1, s) == r + 1);
    }
}
