// Pipeline: four ranks with a layer each; eight microbatches follow each other through them.
// The loss is that of one rank. To fill and drain the pipeline leaves 3/11 of the time idle.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

using namespace yotta;

// The loss in the last of ten steps with this schedule.
double train(const PipelineSchedule& schedule) {
  double loss = 0;
  run_ranks(schedule.ranks, [&](Communicator& world) {
    const StageLayers mine = layers_of_stage(4, world.size(), world.rank());
    const std::vector<LayerPtr> stage = make_linear_net({4, 8}, mine.first, mine.last);
    Pipeline pipeline(world, {stage});
    Sgd optimizer(parameters(stage));
    std::vector<PipelineMicrobatch> batch;
    for (int i = 0; i < 8; ++i)
      batch.push_back({drawn_rows(16, 8).rows(2 * i, 2 * i + 2), {2, 8}, DType::f32, {}});
    for (int step = 0; step < 10; ++step) {
      zero_gradients(stage);
      const PipelineReport report =
          pipeline.run(schedule, batch, [](size_t, const Tensor& y, Tensor& dy) {
            dy = y;
            return half_square(y);
          });
      optimizer.step(0.01);
      if (world.rank() + 1 == world.size()) loss = report.loss;
    }
  });
  return loss;
}

int main() {
  const PipelineSchedule four = make_schedule(PipelineKind::one_f_one_b, 4, 8);
  const double loss = train(four), serial = train(make_schedule(PipelineKind::naive, 1, 8));
  const double idle = 1 - simulate(four).busy();
  fmt::print("loss {:.6f} on four ranks, {:.6f} on one; idle {:.1f}%\n", loss, serial, 100 * idle);
  const bool right = std::abs(loss - serial) < 1e-5 && std::abs(idle - 3.0 / 11) < 1e-12;
  if (!right) fmt::print("the loss must be the same, and 3/11 of the time idle\n");
  return right ? 0 : 1;
}
