// A survivor through epochs: in step exactly, whoever dies wherever; what was lost is counted.
#include "yotta/resilience/survivor.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>

#include "support/message_of.hpp"
#include "support/refused.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/resilience/snapshots/snapshot_files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t steps = 9;

// A model of one number a part: each step's gradient is the mean of numbers that the step and the
// sequence decide.
double gradient_of(int64_t step, int64_t sequence) {
  return static_cast<double>((7 * step + 3 * sequence) % 11) - 4;
}

// The weight of each part when all is done, and the log of epochs.
struct Outcome {
  std::mutex mutex;
  std::map<int, double> weights;
  std::vector<EpochRecord> log;
  std::vector<StepRecord> history;
};

class Member : public EpochMember {
 public:
  Member(const Joiner& self, const SurvivorOptions& options, int64_t batch, Outcome& outcome)
      : self_(self),
        batch_(batch),
        outcome_(outcome),
        survivor_(self, options, [] { throw RankKilled(); }) {}

  bool run(Communicator& world, const Epoch& epoch) override {
    const Places places = survivor_.options().places;
    const int part = places.part(self_.place);
    const ParameterPtr weight = make_parameter("w", {1, 1}, true, zeros(), 0, DType::f64);
    AdamW optimizer({weight});
    const EpochScope scope(survivor_);
    const TrainHooks hooks = survivor_.hooks({}, world);
    int64_t step = survivor_.regroup(world, epoch, optimizer);
    if (step < 0) return false;
    for (; step < steps; ++step) {
      survivor_.begin_step(step);
      std::vector<int> living;
      for (const int place : epoch.places)
        if (places.part(place) == 0) living.push_back(places.replica(place));
      const int own = world.rank() / places.parts;
      const ShareOfStep share =
          share_of_step(survivor_.options().recovery, batch_, 1, 0, places.replicas, living, own);
      survivor_.point().at(FaultPhase::forward);
      std::vector<double> sum(static_cast<size_t>(places.parts));
      for (int64_t i = share.begin; i < share.end; ++i)
        sum[static_cast<size_t>(part)] += gradient_of(step, i) + part;
      survivor_.point().at(FaultPhase::backward);
      Work work = world.all_reduce_async(sum);
      hooks.after_backward();
      work.wait();
      weight->gradient().fill(sum[static_cast<size_t>(part)] / static_cast<double>(share.all));
      hooks.before_step();
      optimizer.step(0.1);
      survivor_.end_step({sum[0], share.all}, optimizer);
      if (survivor_.lets_others_in(world, epoch)) return false;
    }
    survivor_.finish();
    const std::lock_guard lock(outcome_.mutex);
    outcome_.weights[self_.place] = weight->value.data<double>()[0];
    outcome_.log = survivor_.log(), outcome_.history = survivor_.history();
    return true;
  }

 private:
  Joiner self_;
  int64_t batch_;
  Outcome& outcome_;
  Survivor survivor_;
};

void train(Outcome& outcome, const SurvivorOptions& options, int64_t batch = 8) {
  run_epochs(
      options.places.count(),
      [&](const std::vector<bool>& ready) {
        return places_of_epoch(options.recovery, options.places, ready, options.quorum);
      },
      [&](const Joiner& self) { return std::make_unique<Member>(self, options, batch, outcome); });
}
SurvivorOptions options_of(Recovery recovery, Places places, std::vector<Fault> faults,
                           int64_t every = 1) {
  SurvivorOptions options;
  options.recovery = recovery, options.places = places, options.every = every;
  options.faults.faults = std::move(faults);
  return options;
}

// An epoch whose members, by place, are told by hand what to do when they have regrouped.
using Survivors = std::vector<std::unique_ptr<Survivor>>;
template <class Work>
void run_epoch(const Survivors& survivors, const Epoch& epoch, int64_t begins, Work work) {
  run_ranks(static_cast<int>(epoch.places.size()), [&](Communicator& world) {
    const int place = epoch.places[static_cast<size_t>(world.rank())];
    Survivor& survivor = *survivors[static_cast<size_t>(place)];
    const ParameterPtr weight = make_parameter("w", {1, 1}, true, zeros(), 0, DType::f64);
    AdamW optimizer({weight});
    const EpochScope scope(survivor);
    CHECK(survivor.regroup(world, epoch, optimizer) == begins);
    work(place, survivor, optimizer, weight->value.data<double>()[0]);
  });
}

}  // namespace

TEST_CASE("whoever dies in whichever phase, all parts end as without faults") {
  for (const Places& places : {Places{4, 1}, Places{2, 2}, Places{1, 3}})
    for (const Recovery recovery : {Recovery::restart, Recovery::replay}) {
      if (recovery == Recovery::replay && places.replicas == 1) continue;
      Outcome without;
      train(without, options_of(recovery, places, {}));
      REQUIRE(without.weights.size() == static_cast<size_t>(places.count()));
      for (int phase = 0; phase < fault_phases; ++phase)
        for (int rank = 0; rank < places.count(); ++rank) {
          const auto dies = static_cast<FaultPhase>(phase);
          const Fault fault{rank, dies == FaultPhase::healing ? 0 : 4, dies, phase % 3};
          CAPTURE(std::string(name(dies)));
          CAPTURE(rank);
          Outcome with;
          train(with, options_of(recovery, places, {fault}, recovery == Recovery::restart ? 2 : 1));
          CHECK(with.weights == without.weights);  // sums of whole numbers
          CHECK(with.log.back().epoch >= 2);
          CHECK(with.history == without.history);
        }
    }
}

TEST_CASE("restart loses the steps since the last snapshot, and they are done again") {
  Outcome outcome;
  train(outcome, options_of(Recovery::restart, {1, 2}, {{1, 7, FaultPhase::optimizer}}, 3));
  REQUIRE(outcome.log.size() == 2);
  CHECK(outcome.log[0].level == SnapshotLevel::beginning);
  CHECK(outcome.log[1].step == 6);
  CHECK(outcome.log[1].level == SnapshotLevel::peer_memory);
  CHECK(outcome.log[1].moved == 1);
  // The other had done step 7, or was about to.
  CHECK((outcome.log[1].redone == 1 || outcome.log[1].redone == 2));
  CHECK(outcome.log[1].seconds > 0);
}

TEST_CASE("drop trains on the sequences of those left, until the replacement is back") {
  Outcome outcome;
  train(outcome, options_of(Recovery::drop, {4, 1}, {{2, 3, FaultPhase::forward, 2}}));
  REQUIRE(outcome.history.size() == steps);
  int64_t dropped = 0;
  for (const StepRecord& each : outcome.history) {
    CHECK((each.sequences == 8 || each.sequences == 6));
    dropped += 8 - each.sequences;
  }
  CHECK((dropped == 4 ||
         dropped == 6));  // its step, and two more; the others may have been one behind
  REQUIRE(outcome.log.size() == 3);
  CHECK((outcome.log[1].ranks == 3 && outcome.log[2].ranks == 4));
  CHECK((outcome.log[0].places == 0b1111 && outcome.log[0].joined == 0b1111));
  CHECK((outcome.log[1].places == 0b1011 && outcome.log[1].joined == 0));
  CHECK((outcome.log[2].places == 0b1111 && outcome.log[2].joined == 0b0100));
  CHECK(outcome.log[2].step == 5);
  CHECK(outcome.log[2].moved == 1);
  for (int place = 1; place < 4; ++place) CHECK(outcome.weights[place] == outcome.weights[0]);
}

TEST_CASE("what a member did in a step that was given up is not taken for the run's") {
  // Place 3 dies when place 2 alone has done step 1. Places 0 and 1 do it again, with fewer
  // sequences.
  const SurvivorOptions options = options_of(Recovery::drop, {2, 2}, {});
  Survivors survivors;
  for (int place = 0; place < 4; ++place)
    survivors.push_back(std::make_unique<Survivor>(Joiner{place, 0}, options, nullptr));
  const auto epoch = [&](int number, const std::vector<int>& places, int64_t begins, auto work) {
    run_epoch(survivors, {number, places, nullptr}, begins, work);
  };
  epoch(1, {0, 1, 2, 3}, 0, [](int place, Survivor& survivor, AdamW& optimizer, double& weight) {
    weight = 1;
    survivor.end_step({1, 8}, optimizer);
    survivor.leave();
    if (place == 2) weight = 2, survivor.end_step({1, 8}, optimizer);
  });
  survivors[3] = std::make_unique<Survivor>(Joiner{3, 1}, options, nullptr);
  epoch(2, {0, 1}, 1, [](int, Survivor& survivor, AdamW& optimizer, double& weight) {
    CHECK(weight == 1);
    weight = 20;
    survivor.end_step({1, 4}, optimizer);
  });
  epoch(3, {0, 1, 2, 3}, 2, [](int, Survivor& survivor, AdamW&, double& weight) {
    CHECK(weight == 20);
    CHECK(survivor.log().size() == 3);
  });
}

TEST_CASE("whoever is here without the newest parts waits for the others; what all did is known") {
  // Two replicas of two parts. Places 1 and 2 die after 5 steps: place 0 has part 0, and 3 part 1.
  const SurvivorOptions options = options_of(Recovery::replay, {2, 2}, {});
  Survivors survivors(4);
  const auto replace = [&](std::vector<int> places, int number) {
    for (const int place : places)
      survivors[static_cast<size_t>(place)] =
          std::make_unique<Survivor>(Joiner{place, number}, options, nullptr);
  };
  std::string kept;
  std::atomic<int> asked = 0;
  const auto epoch = [&](int number, const std::vector<int>& places, int64_t begins) {
    Epoch it{number, places, nullptr};
    it.keep = [&](const std::string& bytes) { kept = bytes; };
    it.kept = [&] { return kept; };
    it.waiting = [&] { return std::vector<Joiner>(++asked < 3 ? 1 : 2); };
    run_epoch(survivors, it, begins,
              [&](int place, Survivor& survivor, AdamW& optimizer, double& its) {
                if (begins > 0) CHECK(its == 10 * (place % 2) + 5);
                if (number > 1) return;
                for (int step = 1; step <= 5; ++step) {
                  its = 10 * (place % 2) + step;
                  survivor.end_step({1, 8}, optimizer);
                  survivor.leave();
                }
              });
  };
  const std::vector<int> all = {0, 1, 2, 3};
  replace(all, 0);
  epoch(1, all, 0);
  replace({1, 2}, 1);
  epoch(2, {0, 1}, -1);  // replica 0 is whole, and has part 0 alone
  CHECK(asked == 3);
  epoch(3, all, 5);
  REQUIRE(survivors[1]->log().size() == 2);
  CHECK((survivors[1]->log()[1].step == 5 && survivors[1]->log()[1].redone == 0));
  CHECK(survivors[1]->log()[1].moved == 2);
  replace(all, 2);
  asked = 0;
  epoch(4, {0, 1}, -1);  // they know nothing, but the job does
  CHECK(asked == 3);
  epoch(5, all, 0);
  REQUIRE(survivors[0]->log().size() == 3);
  CHECK(survivors[0]->log()[2].redone == 5);
}

TEST_CASE("two die in one step, one dies while it is healed, and all die") {
  Outcome without;
  train(without, options_of(Recovery::replay, {4, 1}, {}));
  for (const std::vector<Fault>& faults :
       {std::vector<Fault>{{0, 4, FaultPhase::collective}, {3, 4, FaultPhase::collective}},
        {{1, 2, FaultPhase::save}, {1, 3, FaultPhase::healing}, {1, 4, FaultPhase::healing}},
        {{0, 4, FaultPhase::forward},
         {1, 4, FaultPhase::forward},
         {2, 4, FaultPhase::forward},
         {3, 4, FaultPhase::forward}}})
    for (const int quorum : {1, 3, 4}) {
      CAPTURE(quorum);
      Outcome with;
      SurvivorOptions options = options_of(Recovery::replay, {4, 1}, faults);
      options.quorum = quorum;
      train(with, options);
      CHECK(with.weights == without.weights);
      if (quorum == 4)
        for (const EpochRecord& each : with.log) CHECK(each.ranks == 4);
    }
}

TEST_CASE("a disk that takes nothing does not end a run: it is said once, and counted at the end") {
  const TemporaryFolder folder;
  const std::string file = (folder / "a_file").string();
  write_file(file, "where a folder should be");
  Outcome without, with;
  train(without, options_of(Recovery::restart, {1, 2}, {}));
  SurvivorOptions options = options_of(Recovery::restart, {1, 2}, {{1, 7, FaultPhase::optimizer}});
  options.folder = file + "/snapshots";
  const std::string said = stderr_of([&] { train(with, options); });
  CHECK(with.weights == without.weights);
  CHECK(with.history == without.history);
  CAPTURE(said);
  CHECK(contains(said, "a snapshot is not on the disk; training goes on"));
  CHECK(contains(said, " snapshots of place 0 are not on the disk"));
}

TEST_CASE("a run that finds snapshots and can use none says so before it begins again") {
  const TemporaryFolder folder;
  SurvivorOptions options = options_of(Recovery::restart, {1, 2}, {});
  options.folder = folder.path().string();
  Outcome first, again;
  CHECK(stderr_of([&] { train(first, options); }).empty());  // there are none yet
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  for (const std::string& file : files) write_file(file, "not a snapshot");
  const std::string said = stderr_of([&] { train(again, options); });
  CAPTURE(said);
  CHECK(contains(said,
                 "the run begins again, since " + options.folder + " has no step that is whole: "));
  CHECK(contains(said, "part_1_of_2.snapshot is cut short or changed"));
  CHECK(again.history == first.history);
  CHECK(again.weights == first.weights);
}

TEST_CASE(
    "snapshots do not grow with the steps: losses so far are on the disk in the first part alone") {
  const TemporaryFolder folder;
  SurvivorOptions options = options_of(Recovery::replay, {2, 2}, {{2, 5, FaultPhase::backward, 1}});
  options.folder = folder.path().string();
  Outcome outcome;
  train(outcome, options);
  CHECK(outcome.history.size() == steps);
  const auto held = [&](int part) {
    return read_snapshot(read_file(snapshot_file(options.folder, steps, {part, 2})))
        ->history.size();
  };
  CHECK((held(0) == steps && held(1) == 0));
  Outcome again;  // a job that is started again: nothing is left to do
  train(again, options);
  CHECK(again.history == outcome.history);
  CHECK(again.weights == outcome.weights);
  CHECK(again.log.front().level == SnapshotLevel::disk);
}

TEST_CASE("a member that was killed from outside leaves its fault to the next one at its place") {
  SurvivorOptions options = options_of(Recovery::replay, {2, 1},
                                       {{1, 3, FaultPhase::forward}, {1, 6, FaultPhase::backward}});
  const auto fault = [&](int number) {
    Survivor survivor({1, number}, options, nullptr);
    survivor.begin_step(steps);
    return survivor.point().is_due(FaultPhase::forward)    ? 0
           : survivor.point().is_due(FaultPhase::backward) ? 1
                                                           : -1;
  };
  CHECK((fault(0) == 0 && fault(1) == 1 && fault(2) == -1));
  int happened = 0;
  options.happened = [&](int place) { return place == 1 ? happened : 9; };
  CHECK((fault(0) == 0 && fault(1) == 0));
  happened = 1;
  CHECK(fault(3) == 1);
}

TEST_CASE("options of a survivor that cannot be are refused") {
  const auto survivor = [](const SurvivorOptions& options) {
    return [=] { Survivor({0, 0}, options, nullptr); };
  };
  check_refused({
      {"Places::replicas is 0", survivor({.places = {0, 1}})},
      {"Places::parts is 0", survivor({.places = {1, 0}})},
      {"SurvivorOptions::quorum is 0, expected a number from 1 to 2",
       survivor({.places = {2, 1}, .quorum = 0})},
      {"SurvivorOptions::quorum is 3, expected a number from 1 to 2",
       survivor({.places = {2, 1}, .quorum = 3})},
      {"SurvivorOptions::every is 0, expected 1 or more", survivor({.every = 0})},
      {"SurvivorOptions::first is -1", survivor({.first = -1})},
      {"a job of 65 places that goes on when ranks die: 64 at most", survivor({.places = {65, 1}})},
  });
}
