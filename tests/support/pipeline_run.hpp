// A pipeline of stages that take exactly the time that is declared for them, on ranks with a
// virtual clock. Each stage is y = w x, so gradients are known.
#pragma once

#include <mutex>
#include <vector>

#include "yotta/comm/run_on.hpp"
#include "yotta/core/context.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

namespace yotta_test {

// Goes through a rank's list beside the executor, and charges what each action declares. F&B is
// charged with its B: nothing is sent before.
class DeclaredTimes {
 public:
  DeclaredTimes(const yotta::PipelineActions& actions, const yotta::PipelineCosts& costs)
      : actions_(&actions), costs_(costs) {}

  void forward() {
    if (!now().with_next) pay(seconds(costs_, yotta::PipelineOp::F));
    ++at_;
  }
  void input() {
    const bool together = at_ > 0 && (*actions_)[at_ - 1].with_next;
    pay(together ? costs_.of_pair() : seconds(costs_, now().op));
    if (now().op == yotta::PipelineOp::I) ++at_;
  }
  void weight() {  // of a B it has been paid
    if (now().op == yotta::PipelineOp::W) pay(costs_.weight);
    ++at_;
  }

 private:
  const yotta::PipelineAction& now() const { return (*actions_)[at_]; }
  static void pay(double seconds) { yotta::charge({"declared", yotta::DType::f32, seconds, 0, 0}); }
  const yotta::PipelineActions* actions_;
  yotta::PipelineCosts costs_;
  size_t at_ = 0;
};

class DeclaredStage : public yotta::Layer {
 public:
  DeclaredStage(int stage, DeclaredTimes& times)
      : Layer("stage." + std::to_string(stage)), weight_(1 + 0.125 * stage), times_(&times) {}

  yotta::Tensor forward(const yotta::Tensor& x, yotta::Saved& saved) override {
    times_->forward();
    saved.keep("x", x);
    return scaled(x);
  }
  yotta::Tensor backward_input(const yotta::Tensor& dy, yotta::Saved& saved) override {
    times_->input();
    saved.keep("dy", dy);
    return scaled(dy);
  }
  void backward_weight(yotta::Saved& saved) override {
    times_->weight();
    gradient += saved.take("x").data<double>()[0] * saved.take("dy").data<double>()[0];
  }
  void add_parameters(std::vector<yotta::ParameterPtr>&) override {}

  double gradient = 0;

 private:
  yotta::Tensor scaled(const yotta::Tensor& x) const {
    yotta::Tensor y = x.clone();
    y.data<double>()[0] *= weight_;
    return y;
  }
  double weight_;
  DeclaredTimes* times_;
};

struct PipelineRun {
  double seconds = 0;             // until the last rank is done
  int64_t most_saved = 0;         // of any rank
  double loss = 0;                // sum of all y
  std::vector<double> gradients;  // by stage, over all copies
};

inline PipelineRun run_pipeline(const yotta::PipelineSchedule& schedule,
                                const yotta::PipelineCosts& costs) {
  PipelineRun found;
  found.gradients.resize(static_cast<size_t>(schedule.stages));
  std::mutex together;
  const yotta::Timed run =
      yotta::run_on(yotta::ideal(), schedule.ranks, [&](yotta::Communicator& pp) {
        DeclaredTimes times(schedule.by_rank[static_cast<size_t>(pp.rank())], costs);
        std::vector<std::vector<yotta::LayerPtr>> chunks;
        std::vector<yotta::Layers> layers;
        std::vector<int> stages;
        for (int c = 0; c < schedule.chunks(); ++c) {
          stages.push_back(stage_on(schedule.placement, pp.rank(), c, schedule.ranks));
          chunks.emplace_back().push_back(std::make_unique<DeclaredStage>(stages.back(), times));
        }
        for (const auto& each : chunks) layers.push_back(each);
        yotta::Pipeline pipeline(pp, layers);
        std::vector<yotta::PipelineMicrobatch> microbatches;
        for (int64_t i = 0; i < schedule.microbatches; ++i)
          microbatches.push_back(
              {yotta::Tensor::full({1}, static_cast<double>(i % 5) - 1.5, yotta::DType::f64),
               {1},
               yotta::DType::f64,
               {}});
        const yotta::PipelineReport report = pipeline.run(
            schedule, microbatches, [](size_t i, const yotta::Tensor& y, yotta::Tensor& dy) {
              dy = y.clone();
              dy.data<double>()[0] += static_cast<double>(i % 3);
              return y.data<double>()[0];
            });
        const std::lock_guard lock(together);
        found.most_saved = std::max(found.most_saved, report.most_saved);
        found.loss += report.loss;
        for (size_t c = 0; c < chunks.size(); ++c)
          found.gradients[static_cast<size_t>(stages[c])] +=
              static_cast<const DeclaredStage&>(*chunks[c][0]).gradient;
      });
  found.seconds = run.seconds();
  return found;
}

}  // namespace yotta_test
