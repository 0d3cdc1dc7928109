// Training goes on when ranks die: killed at random points, with the losses of the run without faults.
#include <doctest/doctest.h>

#include <cmath>

#include "course/shared/training.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t steps = 8;

// Runs of a tiny model, in a folder of their own.
class Runs {
 public:
  Runs() {
    std::string words;
    for (int i = 0; i < 100; ++i) words += fmt::format("the {}th word of a text for a test, ", i);
    write_file(text(), words);
  }
  TrainingPlan plan(const std::string& layout) const {
    TrainingPlan plan;
    plan.model = gpt2_config(2, 8, 2, 8, 256);
    plan.layout = parse_mesh(layout);
    plan.ranks = static_cast<int>(plan.layout->ranks());
    plan.steps = steps;
    plan.batch = 8;
    plan.warmup = 2;
    plan.text = text();
    plan.measure_seconds = 0;
    return plan;
  }
  // The same with faults.
  TrainingPlan plan(const std::string& layout, Recovery recovery,
                    const std::vector<Fault>& faults) const {
    TrainingPlan faulty = plan(layout);
    std::string list;
    for (const Fault& each : faults)
      list +=
          fmt::format(R"({}{{"rank": {}, "step": {}, "phase": "{}", "back": {}}})",
                      list.empty() ? "" : ", ", each.rank, each.step, name(each.phase), each.back);
    const std::string file = (folder_ / "faults.json").string();
    write_file(file, fmt::format(R"({{"faults": [{}]}})", list));
    faulty.tolerance.emplace();
    faulty.tolerance->recovery = recovery;
    faulty.tolerance->missing = layout_of(faulty).dp_replicate - 1;
    faulty.tolerance->faults = file;
    return faulty;
  }
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  std::string text() const { return (folder_ / "text.txt").string(); }
  TemporaryFolder folder_;
};

TrainingFigures trained(const TrainingPlan& plan) {
  return run_training(plan, [](const StepFigures&) {});
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
  const Runs runs;
  const char* const layouts[] = {"dp=4", "dp=2,tp=2", "dp=2,pp=2", "fsdp=2,dp=2"};
  std::vector<TrainingFigures> without;
  for (const char* const layout : layouts) without.push_back(trained(runs.plan(layout)));
  const Random random(20, "points");
  const int points = long_form() ? 2000 : 200;
  for (int i = 0; i < points; ++i) {
    const auto layout = static_cast<size_t>(i % 4);
    const auto recovery = static_cast<Recovery>(i / 4 % 3);
    const int count = 1 + i / 12 % 2;
    const std::vector<Fault> faults =
        random_faults(static_cast<uint64_t>(i), count, 4, 0, steps - 1).faults;
    CAPTURE(i);
    CAPTURE(layouts[layout]);
    CAPTURE(name(recovery));
    std::string who;
    for (const Fault& each : faults)
      who += fmt::format("rank {} step {} {} back {}; ", each.rank, each.step, name(each.phase),
                         each.back);
    CAPTURE(who);
    const TrainingFigures figures = trained(runs.plan(layouts[layout], recovery, faults));
    const double most = difference(figures, without[layout]);
    if (recovery == Recovery::restart) CHECK(most == 0);
    if (recovery == Recovery::replay) CHECK(most <= 1e-5);
    if (recovery == Recovery::drop) CHECK(most <= 0.1);
    CHECK((recovery == Recovery::drop || figures.dropped_sequences == 0));
  }
}
