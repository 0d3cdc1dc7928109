// `train --recover reroute`: replicas of a pipeline go on without single ranks, on threads and as
// processes that are killed.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "course/faulty_runs.hpp"
#include "course/killed_run.hpp"
#include "runner/grade.hpp"
#include "support/from_ctest.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// On replicas of a pipeline, with dropout: each sequence has its own masks.
TrainingPlan tiny_pipeline() {
  TrainingPlan plan;
  plan.model = gpt2_config(4, 8, 2, 8, 256);
  plan.model.dropout = 0.1;
  plan.batch = 12, plan.microbatches = 2;
  return plan;
}
class Pipelines : public Runs {
 public:
  Pipelines() : Runs(tiny_pipeline(), "stage {} of {} replicas, ") {}
  using Runs::plan;
  TrainingPlan plan(const std::string& layout, const std::vector<Fault>& faults) const {
    return plan(layout, Recovery::reroute, faults);
  }
};

void check_same_losses(const TrainingFigures& some, const TrainingFigures& others) {
  REQUIRE(some.loss.size() == others.loss.size());
  for (size_t i = 0; i < some.loss.size(); ++i)
    CHECK(std::abs(some.loss[i] - others.loss[i]) <= 1e-5);
  CHECK(std::abs(some.validation_loss - others.validation_loss) <= 1e-5);
}

}  // namespace

TEST_CASE("reroute: any rank may die in any phase, and the others of its replica go on") {
  const Pipelines runs;
  const TrainingFigures without = trained(runs.plan("pp=2,dp=2"));
  for (const Fault& fault : {Fault{0, 2, FaultPhase::forward, 3},
                             {1, 2, FaultPhase::backward, 3},
                             {2, 2, FaultPhase::collective, 3},
                             {3, 2, FaultPhase::optimizer, 3},
                             {0, 2, FaultPhase::save, 3}}) {
    CAPTURE(fault.rank);
    CAPTURE(std::string(name(fault.phase)));
    const TrainingFigures figures = trained(runs.plan("pp=2,dp=2", {fault}));
    check_same_losses(figures, without);
    REQUIRE(figures.epochs.size() == 3);
    const EpochRecord &alone = figures.epochs[1], &healed = figures.epochs[2];
    CHECK((alone.ranks == 3 && alone.places == (15U & ~(1U << fault.rank))));  // replay: 2
    CHECK((healed.ranks == 4 && healed.joined == 1U << fault.rank && healed.moved == 1));
    CHECK(healed.level == SnapshotLevel::peer_memory);
    CHECK((healed.step == 5 && healed.redone == 0));  // 3 steps without it, at a step's boundary
    CHECK(figures.dropped_sequences == 0);
  }
}

TEST_CASE("reroute: ranks of several replicas and stages are dead at once") {
  const Pipelines runs;
  const TrainingFigures without = trained(runs.plan("pp=3,dp=3"));
  const auto phase = FaultPhase::collective;
  for (const std::vector<int>& ranks : {std::vector<int>{0, 4, 8}, {1, 4}, {3, 4, 5}}) {
    std::vector<Fault> faults;
    for (const int rank : ranks) faults.push_back({rank, 3, phase, 3});
    const TrainingFigures figures = trained(runs.plan("pp=3,dp=3", faults));
    check_same_losses(figures, without);
    int64_t fewest = 9;
    for (const EpochRecord& each : figures.epochs) fewest = std::min(fewest, each.ranks);
    // Who hears of a death first dies in a later epoch, when others may be back.
    CHECK((fewest >= 9 - std::ssize(ranks) && fewest < 9));
    CHECK((figures.epochs.back().ranks == 9 && figures.dropped_sequences == 0));
  }
}

TEST_CASE("reroute: a stage that is dead everywhere is waited for: from the disk, or all again") {
  const Pipelines runs;
  const TrainingFigures without = trained(runs.plan("pp=2,dp=2"));
  const std::vector<Fault> both = {{1, 4, FaultPhase::forward, 2}, {3, 4, FaultPhase::forward, 2}};
  for (const bool has_disk : {false, true}) {
    TrainingPlan plan = runs.plan("pp=2,dp=2", both);
    if (has_disk) plan.tolerance->snapshots = (runs.folder() / "snapshots").string();
    const TrainingFigures figures = trained(plan);
    check_same_losses(figures, without);
    for (const EpochRecord& each : figures.epochs)  // never without stage 1
      CHECK((each.places & 0b1010U) != 0);
    CHECK(figures.epochs.back().ranks == 4);
  }
}

TEST_CASE("reroute: whoever is left of a stage writes its part to the disk") {
  const Pipelines runs;
  // Rank 3 is alone in stage 1 when it dies.
  TrainingPlan plan =
      runs.plan("pp=2,dp=2", {{1, 2, FaultPhase::forward, 8}, {3, 6, FaultPhase::collective, 0}});
  plan.tolerance->snapshots = (runs.folder() / "snapshots").string();
  const TrainingFigures figures = trained(plan);
  check_same_losses(figures, trained(runs.plan("pp=2,dp=2")));
  const auto from_disk =
      std::find_if(figures.epochs.begin(), figures.epochs.end(),
                   [](const EpochRecord& each) { return each.level == SnapshotLevel::disk; });
  REQUIRE(from_disk != figures.epochs.end());
  CHECK(from_disk->step >= 4);  // of the 6 steps that were done
}

TEST_CASE("reroute: so many ranks of each stage may be missing as --tolerate says") {
  const Pipelines runs;
  TrainingPlan plan = runs.plan("pp=2,dp=3", {});
  const auto members = [&](const std::vector<int>& dead) {
    std::vector<bool> ready(6, true);
    for (const int place : dead) ready[static_cast<size_t>(place)] = false;
    return rule_of(plan)(ready);
  };
  plan.tolerance->missing = 1;
  CHECK(members({1, 2}) == std::vector<int>{0, 3, 4, 5});
  CHECK(members({1, 3}).empty());  // both of stage 1
  plan.tolerance->missing = 2;
  CHECK(members({1, 3}) == std::vector<int>{0, 2, 4, 5});
  CHECK(members({1, 3, 5}).empty());
}

// Over a slow link a step takes so long that the replacement comes before the last.
TEST_CASE("reroute: a process is killed with SIGKILL, and its replacement takes its work back") {
  const Pipelines runs;
  const TrainingPlan plan = runs.plan("pp=2,dp=2", {{2, 3, FaultPhase::backward, 2}});
  const TrainingFigures without = trained(runs.plan("pp=2,dp=2"));
  const std::string json = (runs.folder() / "figures.json").string();
  const std::string train = fmt::format(
      "{} --comm processes --link 10ms --layout pp=2,dp=2 --layers 4 --width 8 --heads 2 "
      "--context 8 --steps 8 --batch 12 --microbatches 2 --warmup 2 --dropout 0.1 --text {} "
      "--faults {} --recover reroute --json {}",
      from_ctest("YOTTA_TRAIN"), plan.text, plan.tolerance->faults, json);
  const runner::Ending ending = runner::run_limited({"/bin/sh", "-c", train}, longest_wait);
  CAPTURE(ending.output);
  REQUIRE(ending.well());
  const auto figures = nlohmann::json::parse(read_file(json));
  REQUIRE(figures["loss"].size() == steps);
  for (size_t step = 0; step < steps; ++step)
    CHECK(std::abs(figures["loss"][step].get<double>() - without.loss[step]) <= 1e-5);
  CHECK(figures["epochs"][1]["places"] == std::vector<int>{0, 1, 3});
  CHECK(figures["epochs"].back()["places"] == std::vector<int>{0, 1, 2, 3});
  CHECK((figures["sequences_dropped"] == 0 && figures["steps_redone"] == 0));
  CHECK(contains(ending.output, "killed in this run: rank 2"));
}

TEST_CASE("reroute: nine processes, of which any two are killed from outside, with kill -9" *
          doctest::test_suite("long")) {
  const Pipelines runs;
  constexpr int64_t many = 60;
  TrainingPlan plan = runs.plan("pp=3,dp=3");
  plan.steps = many;
  const TrainingFigures without = trained(plan);
  for (int i = 0; i < 3; ++i) {
    const TemporaryFolder folder;
    const std::string json = (folder / "figures.json").string();
    const std::string train = fmt::format(
        "exec {} --comm processes --link 3ms --layout pp=3,dp=3 --layers 4 --width 8 --heads 2 "
        "--context 8 "
        "--steps {} --batch 12 --microbatches 2 --warmup 2 --dropout 0.1 --text {} --recover "
        "reroute --json {}",
        from_ctest("YOTTA_TRAIN"), many, plan.text, json);
    const std::vector<int> two = {i, i + 4};  // of different stages
    const KilledRun run =
        run_and_kill({"/bin/sh", "-c", train}, folder.path(), {{15, two}, {many / 2, two}});
    CAPTURE(run.printed);
    REQUIRE(run.ending.well());
    REQUIRE(run.killed.size() == 2);
    const auto figures = nlohmann::json::parse(read_file(json));
    REQUIRE(figures["loss"].size() == many);
    CHECK(figures["deaths"].size() == 4);
    CHECK(figures["epochs"].size() >= 2);
    CHECK(figures["sequences_dropped"] == 0);
    CHECK(std::abs(figures["loss"].back().get<double>() - without.loss.back()) <= 1e-3);
  }
}

TEST_CASE("reroute: layouts without peers, and what it cannot run, are refused with what can") {
  const Pipelines runs;
  const auto refusal = [&](const std::string& layout, auto change) {
    TrainingPlan plan = runs.plan(layout, {});
    change(plan);
    return message_of([&] { check_plan(plan); });
  };
  const auto nothing = [](TrainingPlan&) {};
  CHECK(contains(refusal("pp=4", nothing),
                 "--recover reroute goes on with the replicas that are left, and pp 4 has one: "
                 "take --recover restart, or dp=2 as well"));
  CHECK(contains(refusal("dp=4", nothing), "dp 4 has no pipeline: take --recover replay, or pp=2"));
  CHECK(contains(refusal("pp=2,dp=2,tp=2", nothing), "the other axes of tp 2 x pp 2 x dp 2"));
  CHECK(contains(refusal("pp=2,dp=2", [](TrainingPlan& plan) { plan.schedule = "zb-h1"; }),
                 "does not go together with --schedule"));
  CHECK(contains(refusal("pp=2,dp=2", [](TrainingPlan& plan) { plan.chunks = 2; }),
                 "does not go together with --chunks"));
  CHECK(contains(refusal("pp=2,dp=2", [](TrainingPlan& plan) { plan.model.mixture.experts = 4; }),
                 "does not go together with --experts"));
  CHECK(contains(
      refusal("pp=2,dp=2", [](TrainingPlan& plan) { plan.batch = 5, plan.microbatches = 3; }),
      "5 sequences on 2 replicas are too few for --microbatches 3, of which all replicas need as "
      "many. Nearest: --batch 6, or --microbatches 2"));
}
