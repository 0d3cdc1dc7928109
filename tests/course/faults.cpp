// Training goes on when ranks die: killed at random points, with the losses of the run without
// faults.
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
#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/safetensors.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

TrainingPlan tiny_model() {
  TrainingPlan plan;
  plan.model = gpt2_config(2, 8, 2, 8, 256);
  plan.batch = 8;
  return plan;
}
class TinyRuns : public Runs {
 public:
  TinyRuns() : Runs(tiny_model(), "the {1}th word of a text for a test, ") {}
};

std::string describe(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& each : faults)
    text += fmt::format("rank {} step {} {} back {}; ", each.rank, each.step, name(each.phase),
                        each.back);
  return text;
}

double difference(const TrainingFigures& some, const TrainingFigures& others) {
  REQUIRE(some.loss.size() == others.loss.size());
  double most = std::abs(some.validation_loss - others.validation_loss);
  for (size_t i = 0; i < some.loss.size(); ++i)
    most = std::max(most, std::abs(some.loss[i] - others.loss[i]));
  return most;
}

}  // namespace

TEST_CASE("killed at 200 random points, a run ends with the losses of the run without faults") {
  const TinyRuns runs;
  struct Setting {
    const char* layout;
    Recovery recovery;
    std::function<void(TrainingPlan&)> change = [](TrainingPlan&) {};
    TrainingFigures without = {};
  };
  std::vector<Setting> settings;
  for (const char* const layout : {"dp=4", "dp=2,tp=2", "dp=2,pp=2", "fsdp=2,dp=2"})
    for (const Recovery each : {Recovery::restart, Recovery::replay, Recovery::drop})
      settings.push_back({layout, each});
  for (const char* const layout : {"pp=2,tp=2", "fsdp=4", "cp=2,dp=2"})
    settings.push_back({layout, Recovery::restart});
  settings.push_back({"cp=2,dp=2", Recovery::replay});
  settings.push_back({"dp=4", Recovery::restart, [](TrainingPlan& plan) { plan.zero = 2; }});
  settings.push_back({"dp=4", Recovery::replay, [](TrainingPlan& plan) {
                        plan.model.dropout = 0.1, plan.model.dtype = DType::bf16;
                      }});
  settings.push_back({"dp=2,pp=2", Recovery::replay,
                      [](TrainingPlan& plan) { plan.schedule = "zb-h1", plan.microbatches = 4; }});
  settings.push_back(
      {"dp=2,pp=2", Recovery::reroute, [](TrainingPlan& plan) { plan.microbatches = 2; }});
  for (const Recovery each : {Recovery::restart, Recovery::replay})
    settings.push_back({"ep=2,dp=2", each, [](TrainingPlan& plan) {
                          plan.model.mixture.experts = 4, plan.model.mixture.bias_rate = 0.01;
                        }});
  const auto plan_of = [&](const Setting& setting, const std::vector<Fault>* faults) {
    TrainingPlan plan = faults == nullptr ? runs.plan(setting.layout)
                                          : runs.plan(setting.layout, setting.recovery, *faults);
    setting.change(plan);
    return plan;
  };
  for (Setting& each : settings) each.without = trained(plan_of(each, nullptr));
  const int points = long_form() ? 2000 : 200;
  for (int i = 0; i < points; ++i) {
    const Setting& setting = settings[static_cast<size_t>(i) % settings.size()];
    const std::vector<Fault> faults =
        random_faults(static_cast<uint64_t>(i), 1 + i % 3 / 2, 4, 0, steps - 1).faults;
    CAPTURE(i);
    CAPTURE(std::string(setting.layout));
    CAPTURE(std::string(name(setting.recovery)));
    CAPTURE(describe(faults));
    const TrainingFigures figures = trained(plan_of(setting, &faults));
    const double most = difference(figures, setting.without);
    if (setting.recovery == Recovery::restart) CHECK(most == 0);
    if (setting.recovery == Recovery::replay) CHECK(most <= 1e-4);  // bf16 rounds coarsely
    if (setting.recovery == Recovery::reroute) CHECK(most <= 1e-5);
    if (setting.recovery == Recovery::drop) CHECK(most <= 0.1);
    CHECK((setting.recovery == Recovery::drop || figures.dropped_sequences == 0));
    CHECK(figures.epochs.back().epoch >= 2);
  }
}

TEST_CASE("a run whose ranks all die goes on from peers, from the disk, or begins again") {
  const TinyRuns runs;
  const TrainingFigures without = trained(runs.plan("pp=2,tp=2"));
  const std::vector<Fault> all = {{0, 5, FaultPhase::forward, 0},
                                  {1, 5, FaultPhase::forward, 0},
                                  {2, 5, FaultPhase::forward, 0},
                                  {3, 5, FaultPhase::forward, 0}};
  for (const bool has_disk : {false, true}) {
    TrainingPlan plan = runs.plan("pp=2,tp=2", Recovery::restart, all);
    plan.tolerance->snapshot_every = 2;
    if (has_disk) plan.tolerance->snapshots = (runs.folder() / "snapshots").string();
    const TrainingFigures figures = trained(plan);
    CHECK(difference(figures, without) == 0);
    // Who hears of a death first dies in a later epoch: so there are 2 to 5.
    CHECK((figures.epochs.back().epoch >= 2 && figures.epochs.back().epoch <= 5));
    REQUIRE(figures.epochs.size() >= 2);
    int64_t redone = 0;
    for (const EpochRecord& each : figures.epochs) redone += each.redone;
    CHECK(figures.epochs[0].epoch == 1);
    CHECK(redone >= 1);
  }
}

TEST_CASE("two of eight ranks die at once, and --tolerate 2 goes on; with three dead all wait") {
  const TinyRuns runs;
  const TrainingFigures without = trained(runs.plan("dp=8"));
  for (const Recovery recovery : {Recovery::replay, Recovery::drop, Recovery::restart})
    for (const int third : {-1, 7}) {
      CAPTURE(std::string(name(recovery)));
      CAPTURE(third);
      std::vector<Fault> faults = {{0, 3, FaultPhase::collective, 2},
                                   {5, 3, FaultPhase::collective, 2}};
      if (third >= 0) faults.push_back({third, 3, FaultPhase::collective, 2});
      TrainingPlan plan = runs.plan("dp=8", recovery, faults);
      plan.tolerance->missing = 2;
      const TrainingFigures figures = trained(plan);
      CHECK(difference(figures, without) <= (recovery == Recovery::drop ? 0.1 : 1e-5));
      CHECK(figures.epochs.back().ranks == 8);
      int64_t fewest = 8;
      for (const EpochRecord& each : figures.epochs) fewest = std::min(fewest, each.ranks);
      CHECK(fewest >= (recovery == Recovery::restart ? 8 : 6));
      const int64_t most = 2 * (steps - 3);  // a sequence of each of two replicas in each step
      CHECK((figures.dropped_sequences <= most &&
             (recovery == Recovery::drop || figures.dropped_sequences == 0)));
    }
}

TEST_CASE("drop: no weight is further from the run without faults than AdamW can move it") {
  const TinyRuns runs;
  const auto weights = [&](TrainingPlan plan, const char* name) {
    plan.save = (runs.folder() / name).string();
    const TrainingFigures figures = trained(plan);
    CHECK((figures.dropped_sequences > 0) == plan.tolerance.has_value());
    return load_safetensors(plan.save + "/model.safetensors");
  };
  const auto without = weights(runs.plan("dp=4"), "without");
  const auto with =
      weights(runs.plan("dp=4", Recovery::drop, {{1, 2, FaultPhase::backward, 5}}), "with");
  double most = 0;
  REQUIRE(with.size() == without.size());
  for (size_t i = 0; i < with.size(); ++i) {
    const std::vector<double> a = with[i].value.values(), b = without[i].value.values();
    for (size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
  }
  CHECK(most > 0);
  // Cauchy and Schwarz, for infinitely many steps: 1.17.
  const AdamWOptions adamw = runs.plan("dp=4").adamw;
  const double a = 1 - adamw.beta1, b = 1 - adamw.beta2;
  const double of_step = a / std::sqrt(b) / std::sqrt(1 - adamw.beta1 * adamw.beta1 / adamw.beta2);
  CHECK(of_step == doctest::Approx(1.165).epsilon(1e-3).scale(0));
  CHECK(most <= 2 * of_step * runs.plan("dp=4").learning_rate * (steps - 2));
}

TEST_CASE("what a rank has sent is counted since it joined, over all epochs; who died is known") {
  const TinyRuns runs;
  const TrainingFigures without = trained(runs.plan("dp=4"));
  const TrainingFigures with =
      trained(runs.plan("dp=4", Recovery::replay, {{3, 6, FaultPhase::backward, 0}}));
  REQUIRE(with.epochs.size() >= 2);
  REQUIRE(with.epochs.back().step >= 6);
  CHECK(2 * with.ranks[0].bytes_sent > without.ranks[0].bytes_sent);
  CHECK(2 * with.ranks[3].bytes_sent < without.ranks[3].bytes_sent);  // the new member's
  REQUIRE(with.deaths.size() == 1);
  CHECK((with.deaths[0].place == 3 && with.deaths[0].number == 0 && with.deaths[0].epoch == 1));
}

TEST_CASE("a job that is started again goes on from its own snapshots, and from no other's") {
  const TinyRuns runs;
  const TrainingFigures without = trained(runs.plan("fsdp=2,dp=2"));
  TrainingPlan plan = runs.plan("fsdp=2,dp=2", Recovery::restart, {});
  plan.tolerance->snapshots = (runs.folder() / "snapshots").string();
  plan.stop_after = 5;
  trained(plan);
  plan.stop_after = 0;
  const TrainingFigures figures = trained(plan);
  CHECK(difference(figures, without) == 0);
  CHECK(figures.epochs[0].step == 5);
  CHECK(figures.epochs[0].level == SnapshotLevel::disk);
  plan.learning_rate *= 2;
  CHECK(contains(message_of([&] { trained(plan); }), "is of another run"));
}

TEST_CASE("a run goes on from the checkpoint that it was resumed from, and saves one") {
  const TinyRuns runs;
  const TrainingFigures without = trained(runs.plan("dp=2"));
  const std::string first = (runs.folder() / "first").string(), second = first + "_2";
  TrainingPlan plan = runs.plan("dp=2");
  plan.stop_after = 3;
  plan.save = first;
  trained(plan);
  plan = runs.plan("dp=2", Recovery::restart,
                   {{0, 3, FaultPhase::forward, 0}, {1, 3, FaultPhase::forward, 0}});
  plan.resume = first;
  plan.save = second;
  plan.stop_after = 6;
  CHECK(trained(plan).first_step == 3);
  plan = runs.plan("dp=2");
  plan.resume = second;
  const std::vector<double> last = trained(plan).loss;
  REQUIRE(last.size() == 2);
  CHECK((last[0] == without.loss[6] && last[1] == without.loss[7]));
}

TEST_CASE("processes that kill themselves with SIGKILL: the losses of threads without faults") {
  const TinyRuns runs;
  const TrainingFigures without = trained(runs.plan("dp=2,tp=2"));
  const Fault two[] = {{0, 3, FaultPhase::collective, 1}, {3, 5, FaultPhase::optimizer, 0}};
  const std::string json = (runs.folder() / "figures.json").string();
  for (int i = 0; i < (long_form() ? 30 : 3); ++i) {
    const auto recovery = static_cast<Recovery>(i % 3);
    CAPTURE(std::string(name(recovery)));
    const std::vector<Fault> faults =
        i < 3 ? std::vector<Fault>(two, two + 2)
              : random_faults(static_cast<uint64_t>(i), 2, 4, 0, steps - 1).faults;
    CAPTURE(describe(faults));
    const TrainingPlan plan = runs.plan("dp=2,tp=2", recovery, faults);
    std::vector<std::string> words = {from_ctest("YOTTA_TRAIN"), "--comm", "processes"};
    for (const auto& [option, value] : std::initializer_list<std::pair<const char*, std::string>>{
             {"--layout", "dp=2,tp=2"},
             {"--layers", "2"},
             {"--width", "8"},
             {"--heads", "2"},
             {"--context", "8"},
             {"--steps", "8"},
             {"--batch", "8"},
             {"--warmup", "2"},
             {"--text", plan.text},
             {"--faults", plan.tolerance->faults},
             {"--recover", name(recovery)},
             {"--json", json}}) {
      words.emplace_back(option);
      words.push_back(value);
    }
    const runner::Ending ending = runner::run_limited(words, longest_wait);
    CAPTURE(ending.output);
    REQUIRE(ending.well());
    const auto figures = nlohmann::json::parse(read_file(json));
    REQUIRE(figures["loss"].size() == steps);
    const double most[] = {0, 0.1, 1e-5};  // restart, drop, replay
    for (size_t step = 0; step < steps; ++step)
      CHECK(std::abs(figures["loss"][step].get<double>() - without.loss[step]) <=
            most[static_cast<size_t>(recovery)]);
    const bool together = faults[0].step == faults[1].step;  // both may end the same epoch
    CHECK(figures["epochs"].back()["epoch"] >= (together ? 2 : 3));
    CHECK((recovery == Recovery::drop || figures["sequences_dropped"] == 0));
    const size_t killed = ending.output.find("was killed: Killed; another takes its place");
    CHECK(ending.output.find("was killed: Killed; another", killed + 1) != std::string::npos);
    REQUIRE(figures["deaths"].size() == 2);
    if (i >= 3) continue;
    CHECK(ending.output.find("killed in this run: rank 0, rank 3\n") != std::string::npos);
    CHECK((figures["deaths"][0]["rank"] == 0 && figures["deaths"][0]["epoch"] == 1));
    CHECK((figures["deaths"][1]["rank"] == 3 && figures["deaths"][1]["member"] == 0));
  }
}

TEST_CASE(
    "eight processes, of which any two are killed from outside, with kill -9, again and again" *
    doctest::test_suite("long")) {
  const TinyRuns runs;
  constexpr int64_t many = 400;
  const std::string text = runs.plan("dp=8").text;
  const auto run = [&](Recovery recovery, const std::vector<Killing>& killings) {
    const TemporaryFolder folder;
    const std::string json = (folder / "figures.json").string();
    std::vector<std::string> words = {from_ctest("YOTTA_TRAIN")};
    for (const auto& [option, value] : std::initializer_list<std::pair<const char*, std::string>>{
             {"--comm", "processes"},
             {"--ranks", "8"},
             {"--tolerate", "2"},
             {"--layers", "2"},
             {"--width", "8"},
             {"--heads", "2"},
             {"--context", "8"},
             {"--batch", "8"},
             {"--warmup", "2"},
             {"--recover", name(recovery)},
             {"--steps", std::to_string(many)},
             {"--text", text},
             {"--json", json}}) {
      words.emplace_back(option);
      words.push_back(value);
    }
    KilledRun ended = run_and_kill(words, folder.path(), killings);
    CAPTURE(ended.printed);
    REQUIRE(ended.ending.well());
    REQUIRE(ended.killed.size() == killings.size());
    auto figures = nlohmann::json::parse(read_file(json));
    REQUIRE(figures["loss"].size() == many);
    return std::pair(std::move(ended), std::move(figures));
  };
  const auto without = run(Recovery::restart, {}).second["loss"];
  for (int i = 0; i < 6; ++i) {
    const auto recovery = static_cast<Recovery>(i % 3);
    CAPTURE(std::string(name(recovery)));
    const std::vector<Killing> killings = {
        {15, {i, (i + 3) % 8}}, {120, {0, 7 - i}}, {240, {(i + 5) % 8}}, {245, {(i + 1) % 8}}};
    const auto [ended, figures] = run(recovery, killings);
    double most = 0;
    for (size_t step = 0; step < many; ++step) {
      const double difference =
          std::abs(figures["loss"][step].get<double>() - without[step].get<double>());
      REQUIRE(std::isfinite(difference));
      most = std::max(most, difference);
    }
    if (recovery == Recovery::restart) CHECK(most == 0);
    if (recovery == Recovery::replay) CHECK(most <= 1e-5);
    if (recovery == Recovery::drop) CHECK(most <= 0.1);
    CHECK((figures["sequences_dropped"] > 0) == (recovery == Recovery::drop));
    CHECK(figures["deaths"].size() >= 5);  // one has died twice, if i is 0
    // A snapshot of each step is in memory: nothing goes back further than the step under way.
    CHECK(figures["epochs"].size() >= 4);
    for (const auto& each : figures["epochs"]) CHECK(each["steps_redone"] <= 1);
    CHECK(figures["epochs"][1]["step"] >= ended.killed[0] - 1);
    CHECK(figures["epochs"].back()["step"] >= 240 - 1);
  }
}

TEST_CASE("the last lines number the epochs, those that ended at once too") {
  EpochRecord second, fourth;
  second.epoch = 2, second.ranks = 8;
  fourth.epoch = 4, fourth.ranks = 7, fourth.step = 9, fourth.redone = 1, fourth.seconds = 0.5;
  const std::string text = describe_losses({second, fourth}, 3, {{3, 0, 1}, {3, 1, 2}, {0, 0, 3}});
  CHECK(text.starts_with("epochs: 4; lost: 1 step done again, 3 sequences dropped; 0.50 s"));
  CHECK(text.find("\n  epoch 1: ended before its first step\n  epoch 2: 8 ranks, from step 0") !=
        std::string::npos);
  CHECK(text.find(
            "\n  epoch 3: ended before its first step\n  epoch 4: 7 ranks, from step 9, state from "
            "beginning, after 0.50 s\n") != std::string::npos);
  CHECK(text.find("\nkilled in this run: rank 0, rank 3 (2 times)\n") != std::string::npos);
  CHECK(describe_losses({}, 0, {}).starts_with("epochs: 0; lost: 0 steps"));
}

TEST_CASE("what cannot go on is refused, with what can") {
  const TinyRuns runs;
  const auto refusal = [&](const std::string& layout, Recovery recovery, auto change) {
    TrainingPlan plan = runs.plan(layout, recovery, {});
    change(plan);
    return message_of([&] { check_plan(plan); });
  };
  const auto nothing = [](TrainingPlan&) {};
  CHECK(contains(refusal("dp=2", Recovery::drop, [](TrainingPlan& plan) { plan.ema = 0.9; }),
                 "do not go together with --ema"));
  CHECK(contains(
      refusal("dp=2", Recovery::drop, [](TrainingPlan& plan) { plan.workers = 2, plan.ranks = 4; }),
      "do not go together with --diloco"));
  check_plan(runs.plan("dp=2", Recovery::drop, {}));
  CHECK(contains(refusal("pp=2", Recovery::drop, nothing),
                 "--recover drop goes on with the replicas that are left, and pp 2 has one: take "
                 "--recover restart, or dp=2 as well"));
  CHECK(contains(refusal("dp=2", Recovery::replay, [](TrainingPlan& plan) { plan.zero = 1; }),
                 "none that hold the same: --zero 1 cuts their state"));
  CHECK(contains(
      refusal("dp=2", Recovery::drop, [](TrainingPlan& plan) { plan.tolerance->missing = 2; }),
      "--tolerate 2: 2 replicas cannot all be missing while others go on. Nearest: 1"));
  CHECK(contains(refusal("dp=2", Recovery::drop,
                         [](TrainingPlan& plan) { plan.tolerance->snapshot_every = 3; }),
                 "--snapshot-every 3 is for --recover restart"));
  CHECK(contains(refusal("dp=2", Recovery::drop,
                         [](TrainingPlan& plan) { plan.tolerance->faults = "/no/such/plan"; }),
                 "/no/such/plan"));
  CHECK(contains(refusal("dp=65", Recovery::drop, [](TrainingPlan& plan) { plan.batch = 65; }),
                 "for 64 ranks at most, not 65"));
  CHECK(contains(refusal("dp=2", Recovery::drop,
                         [](TrainingPlan& plan) { plan.tolerance->snapshots = "/proc/none"; }),
                 "/proc/none"));
}
