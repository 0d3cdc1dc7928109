// A bit is flipped at every place of a step, and every cell of the table is run: which detector
// finds it, and when.
#include "yotta/resilience/faults/watched_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace yotta;

TEST_CASE("without a flip nobody says anything, and costs are as written") {
  const WatchedPlan plan;
  const WatchedRun run = train_watched(plan);
  for (const int64_t alarm : run.alarms) CHECK(alarm == -1);
  CHECK(run.losses.back() < 0.9 * run.losses.front());
  CHECK(run.gradients == 2 * plan.steps);  // a step's own, and the next rank's
  CHECK(run.checksum_bytes == plan.steps * 8 * (plan.ranks - 1));
  CHECK(run.replay_bytes == plan.steps * 16 * (plan.ranks - 1));
  CHECK(run.bytes_read == 3 * 4 * parameters(plan.model));  // weights, and two moments of each
}

TEST_CASE("each flip against each detector: when it is found") {
  struct Row {
    FlipPlace place;
    int bit;
    const char *checksum, *norm, *replay;
  };
  using enum FlipPlace;
  const char *now = "in the step", *later = "1 step later", *missed = "missed";
  const Row rows[] = {
      {weight, 30, missed, now, now},  // all replicas are NaN within the step, and agree
      {weight, 23, now, missed, now},
      {weight, 14, now, missed, now},
      {activation, 30, missed, missed, now},
      {activation, 23, missed, missed, now},
      {activation, 14, missed, missed, now},
      {own_gradient, 30, missed, now, now},
      {own_gradient, 23, missed, missed, now},
      {own_gradient, 14, missed, missed, now},
      {summed_gradient, 30, now, now, later},
      {summed_gradient, 23, now, missed, later},
      {summed_gradient, 14, now, missed, later},
      {moment, 30, now, later, later},
      {moment, 23, now, missed, later},
      {moment, 14, now, missed, later},
  };
  const std::vector<double> clean = train_watched({}).losses;
  for (const Row& row : rows) {
    const Flip flip{row.place, row.bit, 1, 4};
    const WatchedRun run = train_watched({}, flip);
    CAPTURE(std::string(name(row.place)));
    CAPTURE(row.bit);
    CHECK(in_words(run, Detector::checksum, flip) == row.checksum);
    CHECK(in_words(run, Detector::norm, flip) == row.norm);
    CHECK(in_words(run, Detector::replay, flip) == row.replay);
    CHECK(run.odd == (row.checksum == now ? std::vector{1} : std::vector<int>{}));
    const auto first = std::mismatch(run.losses.begin(), run.losses.end(), clean.begin()).first;
    CHECK(first - run.losses.begin() >= flip.step);  // the steps before it are untouched,
    CHECK(first != run.losses.end());                // and rounding has not swallowed it
    // The smallest flip may be rounded away again by the last step: clang's rounding does that.
    if (row.place != summed_gradient || row.bit != 14) CHECK(run.losses.back() != clean.back());
    if (row.bit < 30) CHECK(std::abs(run.losses.back() - clean.back()) < 1e-4);
  }
}
