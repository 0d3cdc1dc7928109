// Who takes part, from which step, on what: the decisions of ranks that are left.
#include "yotta/resilience/regroup.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace yotta;

namespace {
using Ints = std::vector<int>;
std::vector<bool> all_but(int places, const Ints& lost) {
  std::vector<bool> ready(static_cast<size_t>(places), true);
  for (const int place : lost) ready[static_cast<size_t>(place)] = false;
  return ready;
}
}  // namespace

TEST_CASE("a replica without one of its ranks does not train; restart waits for all") {
  const Places places{4, 2};
  CHECK((places.replica(5) == 2 && places.part(5) == 1));
  CHECK(whole_replicas(places, all_but(8, {3})) == Ints{0, 2, 3});
  const auto epoch = [&](Recovery recovery, const Ints& lost, int quorum = 1) {
    return places_of_epoch(recovery, places, all_but(8, lost), quorum);
  };
  for (const Recovery each : {Recovery::restart, Recovery::drop, Recovery::replay})
    CHECK(epoch(each, {}) == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(epoch(Recovery::restart, {3}).empty());
  CHECK(epoch(Recovery::drop, {3}) == Ints{0, 1, 4, 5, 6, 7});
  CHECK(epoch(Recovery::replay, {0, 3, 6}) == Ints{4, 5});
  CHECK(epoch(Recovery::replay, {0, 3, 6}, 2).empty());
  CHECK(epoch(Recovery::drop, {0, 2, 4, 6}, 0).empty());
}

TEST_CASE("reroute goes on with every rank, as long as each part has enough of them") {
  const auto epoch = [&](const Ints& lost, int quorum) {
    return places_of_epoch(Recovery::reroute, {3, 2}, all_but(6, lost), quorum);
  };
  CHECK(epoch({}, 3) == Ints{0, 1, 2, 3, 4, 5});
  CHECK(epoch({3}, 3).empty());
  CHECK(epoch({3}, 2) == Ints{0, 1, 2, 4, 5});
  CHECK(epoch({0, 3}, 2) == Ints{1, 2, 4, 5});
  CHECK(epoch({1, 3}, 2).empty());  // one rank is left of part 1
  CHECK(epoch({1, 3}, 1) == Ints{0, 2, 4, 5});
  CHECK(epoch({1, 3, 5}, 0).empty());
}

TEST_CASE("all go on after the newest step of which every part is there") {
  const Ints parts = {0, 1, 0, 1};  // two replicas of two ranks
  const auto check = [&](const std::vector<Offer>& offers, int64_t step, const Ints& sources) {
    const Healing healing = find_healing(offers, parts);
    CHECK(healing.step == step);
    CHECK(healing.sources == sources);
  };
  SUBCASE("all have the same") {
    check({{0, 0, 7}, {1, 1, 7}, {2, 0, 7}, {3, 1, 7}}, 7, {0, 1, 2, 3});
  }
  SUBCASE("rank 2 is a step behind, and has only the step before") {
    check({{0, 0, 7}, {0, 0, 8}, {1, 1, 7}, {1, 1, 8}, {2, 0, 7}, {2, 0, 6}, {3, 1, 7}, {3, 1, 8}},
          8, {0, 1, 0, 3});
  }
  SUBCASE("nobody has part 1 after step 8") {
    check({{0, 0, 7}, {0, 0, 8}, {1, 1, 7}, {1, 1, 6}, {2, 0, 8}, {3, 1, 7}}, 7, {0, 1, 0, 3});
  }
  SUBCASE("ranks 2 and 3 are new; rank 3's part comes from a peer's memory of another part") {
    check({{0, 0, 4}, {0, 1, 4}, {1, 0, 4}}, 4, {0, 0, 0, 0});
  }
  SUBCASE("part 1 is lost") { check({{0, 0, 4}, {2, 0, 4}}, 0, {-1, -1, -1, -1}); }
  SUBCASE("all are new") { check({}, 0, {-1, -1, -1, -1}); }
}

TEST_CASE("shares of a step: replay trains on every sequence once, drop on those of the living") {
  for (const int ranks : {1, 2})
    for (const int64_t batch : {8, 13}) {
      const Ints living = {0, 2, 3};
      for (const Recovery recovery : {Recovery::drop, Recovery::replay}) {
        std::multiset<int64_t> trained;
        int64_t all = 0;
        for (int own = 0; own < 3; ++own)
          for (int index = 0; index < ranks; ++index) {
            const ShareOfStep share = share_of_step(recovery, batch, ranks, index, 4, living, own);
            for (int64_t i = share.begin; i < share.end; ++i) trained.insert(i);
            all = share.all;
          }
        std::set<int64_t> expected;
        for (int64_t i = 0; i < batch; ++i) expected.insert(i);
        if (recovery == Recovery::drop)  // replica 1's
          for (int index = 0; index < ranks; ++index) {
            const BatchShard lost = batch_shard(batch, 4 * ranks, ranks + index);
            for (int64_t i = lost.begin; i < lost.end; ++i) expected.erase(i);
          }
        CHECK(trained == std::multiset<int64_t>(expected.begin(), expected.end()));
        CHECK(all == std::ssize(expected));
      }
    }
  // All there: as without failures.
  const ShareOfStep share = share_of_step(Recovery::drop, 12, 1, 0, 4, Ints{0, 1, 2, 3}, 2);
  CHECK((share.begin == 6 && share.end == 9 && share.all == 12));
  const ShareOfStep whole = share_of_step(Recovery::reroute, 12, 1, 0, 4, Ints{0, 2}, 1);
  CHECK((whole.begin == 0 && whole.end == 12 && whole.all == 12));
}

TEST_CASE("least is lost at Young's interval: as much to snapshots as to work done twice") {
  const double save = 10, mean = 20000, best = best_intervals(save, mean).young;
  CHECK(lost_share(best, save, mean) == doctest::Approx(2 * save / best));
  CHECK(lost_share(best, save, mean) == doctest::Approx(best / mean));
  for (const double other : {0.9, 1.1})
    CHECK(lost_share(other * best, save, mean) > lost_share(best, save, mean));
}
