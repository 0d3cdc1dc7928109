// The log of epochs: whoever joins gets it; who took part, and which snapshots belong to the run.
#include "yotta/resilience/snapshots/epoch_log.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {
// An epoch of these places; logs are by place.
void begin(std::vector<EpochLog>& logs, int number, const std::vector<int>& places, int64_t step,
           std::vector<int64_t> steps_done) {
  run_ranks(static_cast<int>(places.size()), [&](Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    EpochLog& log = logs[static_cast<size_t>(places[rank])];
    log.share(world);
    log.begin(world, {number, places, nullptr}, {step, "", SnapshotLevel::peer_memory, 1},
              steps_done[rank]);
    log.end();
  });
}
}  // namespace

TEST_CASE("who takes part, who is new, and what is done again") {
  std::vector<EpochLog> logs(64);
  begin(logs, 1, {0, 1, 63}, 0, {0, 0, 0});
  begin(logs, 2, {0, 63}, 4, {6, 4});
  logs[1] = EpochLog();
  begin(logs, 3, {0, 1, 63}, 6, {6, 0, 6});
  for (const size_t place : {0, 1, 63}) {
    const std::vector<EpochRecord>& all = logs[place].records();
    REQUIRE(all.size() == 3);
    CHECK((all[0].epoch == 1 && all[0].ranks == 3 && all[0].seconds == 0));
    CHECK((all[0].places == (uint64_t{1} << 63 | 0b11) && all[0].joined == all[0].places));
    CHECK((all[1].places == (uint64_t{1} << 63 | 1) && all[1].joined == 0));
    CHECK((all[1].step == 4 && all[1].redone == 2 && all[1].moved == 1));
    CHECK(all[1].seconds > 0);
    CHECK((all[2].joined == 0b10 && all[2].redone == 0 && all[2].step == 6));
  }
}

TEST_CASE("a snapshot of a step that was given up does not belong to the run") {
  std::vector<EpochLog> logs(2);
  begin(logs, 1, {0, 1}, 0, {0, 0});
  begin(logs, 2, {0, 1}, 4, {6, 6});
  const auto holds = [&](int64_t epoch, int64_t step) {
    return logs[0].holds({0, epoch, step, step, {}});
  };
  CHECK((holds(1, 3) && holds(1, 4)));
  CHECK_FALSE(holds(1, 5));
  CHECK((holds(2, 5) && holds(2, 6)));
}

TEST_CASE("if all members die, the job has the log and the steps done") {
  std::vector<EpochLog> logs(2);
  begin(logs, 1, {0, 1}, 0, {0, 0});
  begin(logs, 2, {0, 1}, 4, {5, 4});
  const std::string kept = logs[0].packed(9);
  std::vector<EpochLog> fresh(2);
  run_ranks(2, [&](Communicator& world) {
    EpochLog& log = fresh[static_cast<size_t>(world.rank())];
    log.share(world, world.rank() == 0 ? kept : "");
    CHECK(log.reached() == 9);
    REQUIRE(log.records().size() == 2);
    CHECK((log.records()[1].step == 4 && log.records()[1].redone == 1));
    log.begin(world, {3, {0, 1}, nullptr}, {6, "", SnapshotLevel::disk, 2}, 0);
    CHECK(log.records()[2].redone == 3);
    CHECK(log.records()[2].seconds > 0);
  });
  run_ranks(2, [&](Communicator& world) {  // what is older, or nothing, changes no log
    EpochLog& log = fresh[static_cast<size_t>(world.rank())];
    for (const std::string& old : {kept, std::string()}) log.share(world, old);
    CHECK(log.records().size() == 3);
  });
}

TEST_CASE("a member that joined an epoch which nobody began is new in the next, too") {
  std::vector<EpochLog> logs(2);
  begin(logs, 1, {0}, 0, {0});
  run_ranks(2, [&](Communicator& world) {  // one of them dies after this
    logs[static_cast<size_t>(world.rank())].share(world);
  });
  begin(logs, 3, {0, 1}, 2, {2, 0});
  CHECK(logs[0].records().back().joined == 0b10);
}
