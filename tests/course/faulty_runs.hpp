// Runs of a tiny model, in a folder of their own, with faults and without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "course/training/surviving.hpp"
#include "course/training/training.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta_test {

inline constexpr int64_t steps = 8;

class Runs {
 public:
  // Each run is `usual` with a layout, on a text that repeats `words` with numbers in them.
  Runs(const yotta::TrainingPlan& usual, const char* words) : usual_(usual) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += fmt::format(fmt::runtime(words), i % 7, i);
    yotta::write_file(text_file(), text);
  }
  yotta::TrainingPlan plan(const std::string& layout) const {
    yotta::TrainingPlan plan = usual_;
    plan.layout = yotta::parse_mesh(layout);
    plan.ranks = static_cast<int>(plan.layout->ranks());
    plan.steps = steps;
    plan.warmup = 2;
    plan.text = text_file();
    plan.measure_seconds = 0;
    return plan;
  }
  // The same with faults.
  yotta::TrainingPlan plan(const std::string& layout, yotta::Recovery recovery,
                           const std::vector<yotta::Fault>& faults) const {
    yotta::TrainingPlan faulty = plan(layout);
    std::string list;
    for (const yotta::Fault& each : faults)
      list +=
          fmt::format(R"({}{{"rank": {}, "step": {}, "phase": "{}", "back": {}}})",
                      list.empty() ? "" : ", ", each.rank, each.step, name(each.phase), each.back);
    const std::string file = (folder_ / "faults.json").string();
    yotta::write_file(file, fmt::format(R"({{"faults": [{}]}})", list));
    faulty.tolerance.emplace();
    faulty.tolerance->recovery = recovery;
    faulty.tolerance->missing = layout_of(faulty).dp_replicate - 1;
    faulty.tolerance->faults = file;
    return faulty;
  }
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  std::string text_file() const { return (folder_ / "text.txt").string(); }
  yotta::TrainingPlan usual_;
  TemporaryFolder folder_;
};

inline yotta::TrainingFigures trained(const yotta::TrainingPlan& plan) {
  return run_training(plan, [](const yotta::StepFigures&) {});
}

}  // namespace yotta_test
