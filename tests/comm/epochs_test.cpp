// Epochs: who takes part when, and a job on threads that goes on when any of its ranks die.
#include "yotta/comm/epochs.hpp"

#include <doctest/doctest.h>

#include <array>
#include <mutex>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Places = std::vector<int>;
// All that are ready, if there are so many.
EpochRule at_least(int count) {
  return [count](const std::vector<bool>& ready) {
    Places places;
    for (size_t place = 0; place < ready.size(); ++place)
      if (ready[place]) places.push_back(static_cast<int>(place));
    if (static_cast<int>(places.size()) < count) places.clear();
    return places;
  };
}

// Counts to `last` with the others, one all_reduce per step. Its state is its memory; who has none
// gets it from another. Dies as told.
struct Counting : EpochMember {
  struct Death {
    int place, number;
    int64_t step;
    bool inside;  // the others are in the all_reduce
  };
  Joiner self;
  const std::vector<Death>& deaths;
  int64_t last;
  std::vector<Places>& epochs;
  int64_t count = 0;

  Counting(const Joiner& who, const std::vector<Death>& all, int64_t steps,
           std::vector<Places>& seen)
      : self(who), deaths(all), last(steps), epochs(seen) {}
  bool run(Communicator& world, const Epoch& epoch) override {
    if (world.rank() == 0) epochs.push_back(epoch.places);
    std::vector<int64_t> most = {count};
    world.all_reduce(most, ReduceOp::max);  // heals
    count = most[0];
    while (count < last) {
      std::vector<int64_t> ones = {1};
      die(false);
      Work sum = world.all_reduce_async(ones);
      die(true);
      sum.wait();
      CHECK(ones[0] == world.size());
      ++count;
      std::vector<int64_t> joins = {world.rank() == 0 && !epoch.waiting().empty() ? 1 : 0};
      world.broadcast(joins, 0);
      if (joins[0] == 1) return false;
    }
    return true;
  }
  void die(bool inside) const {
    for (const Death& each : deaths)
      if (each.place == self.place && each.number == self.number && each.step == count &&
          each.inside == inside)
        throw RankKilled();
  }
};

// The places of each epoch of such a job.
std::vector<Places> counted(int places, int least, const std::vector<Counting::Death>& deaths) {
  std::vector<Places> epochs;
  run_epochs(places, at_least(least),
             [&](const Joiner& who) { return std::make_unique<Counting>(who, deaths, 6, epochs); });
  return epochs;
}

}  // namespace

TEST_CASE("an epoch is due when a member dies or the members ask, and enough are ready") {
  EpochPlanner planner(3, at_least(2));
  CHECK_FALSE(planner.next());
  planner.came(0);
  planner.came(2);
  CHECK_FALSE(planner.next());  // the first waits for all
  planner.came(1);
  CHECK(planner.next() == Places{0, 1, 2});
  planner.died(1);
  CHECK(planner.next() == Places{0, 2});
  CHECK(planner.number() == 2);
  CHECK_FALSE(planner.next());
  planner.came(1);
  CHECK(planner.waiting() == Places{1});
  CHECK_FALSE(planner.next());  // nobody has asked
  planner.died(1);
  CHECK_FALSE(planner.next());  // it took no part
  planner.came(1);
  planner.asks();
  CHECK(planner.next() == Places{0, 1, 2});
  CHECK(planner.waiting().empty());
  CHECK(planner.missing().empty());  // no epoch is due
  planner.died(0);
  planner.died(1);
  CHECK_FALSE(planner.next());
  CHECK(planner.missing() == Places{0, 1});
  planner.came(0);
  CHECK(planner.missing().empty());
  CHECK(planner.next() == Places{0, 2});
  CHECK(planner.number() == 4);
}

TEST_CASE("a job on threads ends although ranks die, whoever it is and wherever") {
  CHECK(counted(3, 1, {}) == std::vector<Places>{{0, 1, 2}});
  for (const int victim : {0, 1, 2})
    for (const bool inside : {false, true}) {
      CAPTURE(victim);
      CAPTURE(inside);
      Places left = {0, 1, 2};
      left.erase(left.begin() + victim);
      CHECK(counted(3, 1, {{victim, 0, 3, inside}}) ==
            std::vector<Places>{{0, 1, 2}, left, {0, 1, 2}});
      CHECK(counted(3, 3, {{victim, 0, 3, inside}}) == std::vector<Places>{{0, 1, 2}, {0, 1, 2}});
    }
}

TEST_CASE("two die at once, one dies as soon as it has come back, and all die") {
  const auto check_whole = [](const std::vector<Places>& epochs, size_t least, size_t most) {
    CHECK(epochs.front() == epochs.back());
    CHECK((epochs.size() >= least && epochs.size() <= most));
  };
  // The second may hear of the first one's death before it dies itself: then it does in the next
  // epoch.
  check_whole(counted(4, 1, {{1, 0, 2, true}, {2, 0, 2, true}}), 3, 5);
  check_whole(counted(3, 3, {{1, 0, 2, false}, {1, 1, 2, false}, {1, 2, 2, true}}), 4, 4);
  check_whole(counted(2, 2, {{0, 0, 4, false}, {1, 0, 4, false}}), 2, 3);  // all: it begins again
}

TEST_CASE("a job knows who has died, in which epoch") {
  struct Dying : EpochMember {
    Joiner self;
    std::vector<Death>& seen;
    Dying(const Joiner& who, std::vector<Death>& all) : self(who), seen(all) {}
    bool run(Communicator& world, const Epoch& epoch) override {
      if (self.place == 10 && self.number < 2) throw RankKilled();
      if (self.place == 2 && self.number == 0 && epoch.number == 3) throw RankKilled();
      world.barrier();
      if (world.rank() == 0) seen = epoch.deaths();
      return true;
    }
  };
  std::vector<Death> seen;
  run_epochs(11, at_least(11),
             [&](const Joiner& who) { return std::make_unique<Dying>(who, seen); });
  std::vector<std::array<int, 3>> all;
  for (const Death& each : seen) all.push_back({each.place, each.number, each.epoch});
  CHECK(all == std::vector<std::array<int, 3>>{{10, 0, 1}, {10, 1, 2}, {2, 0, 3}});
  CHECK(describe(seen) == "rank 2, rank 10 (2 times)");
  CHECK(describe(std::vector<Death>{}).empty());
}

TEST_CASE("an error that is no death ends the job") {
  struct Failing : EpochMember {
    bool run(Communicator& world, const Epoch&) override {
      if (world.rank() == 1) fail(Where::current(), "no such text");
      world.barrier();
      return true;
    }
  };
  const std::string message = message_of([] {
    run_epochs(2, at_least(1), [](const Joiner&) { return std::make_unique<Failing>(); });
  });
  CHECK(contains(message, "rank 1 failed: "));
  CHECK(contains(message, "no such text"));
  CHECK(contains(message_of([] {
                   run_epochs(2, at_least(3),
                              [](const Joiner&) { return std::make_unique<Failing>(); });
                 }),
                 "the 2 places of this job are too few for its rule"));
}
