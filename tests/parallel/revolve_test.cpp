#include "yotta/parallel/revolve.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;
using Kind = ReplayAction::Kind;

namespace {

// Plays a schedule with numbers for tensors: what flows is the number of the layer that it flows
// into. Every layer must be reversed once, last one first, from its own input. Returns the most
// checkpoints at once.
size_t play(const ReplayActions& actions, int64_t l) {
  std::set<int64_t> kept;
  size_t most = 0;
  int64_t flows = 0, next = l - 1;  // the layer to be reversed next
  bool right = true;
  for (const ReplayAction& each : actions) switch (each.kind) {
      case Kind::keep:
        right = right && flows == each.layer && kept.insert(each.layer).second;
        most = std::max(most, kept.size());
        break;
      case Kind::restore:
        right = right && kept.count(each.layer) == 1;
        flows = each.layer;
        break;
      case Kind::drop: right = right && kept.erase(each.layer) == 1; break;
      case Kind::run: right = right && flows++ == each.layer; break;
      case Kind::reverse:
        right = right && flows == each.layer && next-- == each.layer;
        flows = -1;  // used up
    }
  CHECK(right);
  CHECK(next == -1);
  CHECK(kept.empty());
  return most;
}

}  // namespace

TEST_CASE("the schedule reverses every chain, within its checkpoints, in t(l, s) steps") {
  for (int64_t l = 0; l <= 60; ++l)
    for (int64_t s = 1; s <= 9; ++s) {
      CAPTURE(l);
      CAPTURE(s);
      const ReplayActions actions = revolve_schedule(l, s);
      CHECK(play(actions, l) <= static_cast<size_t>(s));
      CHECK(forward_runs(actions) == revolve_steps(l, s));
    }
  CHECK(forward_runs(revolve_schedule(1000, 4)) == revolve_steps(1000, 4));
}

TEST_CASE(
    "no schedule needs fewer: the formula is the minimum over every place of the next checkpoint") {
  std::vector<std::vector<int64_t>> best(8, std::vector<int64_t>(41));
  for (int64_t s = 1; s <= 7; ++s)
    for (int64_t l = 1; l <= 40; ++l) {
      int64_t least = l * (l - 1) / 2;  // without another checkpoint
      for (int64_t m = 1; s > 1 && m < l; ++m)
        least = std::min(least, m + best[static_cast<size_t>(s - 1)][static_cast<size_t>(l - m)] +
                                    best[static_cast<size_t>(s)][static_cast<size_t>(m)]);
      best[static_cast<size_t>(s)][static_cast<size_t>(l)] = least;
      CHECK(revolve_steps(l, s) == least);
    }
}

TEST_CASE("with enough checkpoints every layer runs once; with one, each starts again at layer 0") {
  CHECK(revolve_steps(24, 24) == 23);
  CHECK(revolve_steps(24, 100) == 23);
  CHECK(revolve_steps(24, 1) == 276);  // n (n - 1) / 2
  CHECK(revolve_steps(1, 1) == 0);
  CHECK(revolve_steps(0, 1) == 0);
  CHECK(revolve_beta(10, 3) == 286);
  CHECK(revolve_beta(40, 40) == std::numeric_limits<int64_t>::max());
}

TEST_CASE(
    "a checkpoint every C layers, each layer from its own: counted, and as the formula says") {
  for (int64_t l = 0; l <= 30; ++l)
    for (int64_t every = 1; every <= 32; ++every) {
      CAPTURE(l);
      CAPTURE(every);
      const ReplayActions actions = restart_schedule(l, every);
      CHECK(play(actions, l) == static_cast<size_t>((l + every - 1) / every));
      CHECK(forward_runs(actions) == restart_steps(l, every));
      if (l > 0) CHECK(restart_steps(l, every) >= revolve_steps(l, (l + every - 1) / every));
    }
  CHECK(restart_steps(24, 24) == 276);
  CHECK(restart_steps(24, 1) == 23);
}

TEST_CASE("schedules are printed, and impossible ones refused") {
  CHECK(str(revolve_schedule(2, 1)) == "keep 0, run 0, reverse 1, restore 0, reverse 0, drop 0");
  CHECK(str(revolve_schedule(3, 2)) ==
        "keep 0, run 0, keep 1, run 1, reverse 2, restore 1, reverse 1, drop 1, restore 0, "
        "reverse 0, drop 0");
  CHECK(contains(message_of([] { revolve_schedule(3, 0); }), "its own input takes one"));
  CHECK(contains(message_of([] { restart_schedule(3, 0); }), "a checkpoint every 0"));
}
