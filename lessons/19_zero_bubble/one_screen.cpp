// Zero bubble: backward in two halves. The gradients of weights wait, and fill what was idle.
// Of the six units of time for which 1F1B idles two are left. The gradients are the same bits.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/zero_bubble.hpp"

using namespace yotta;

// One step on three ranks: how long rank 0 idles, in forward passes of a stage, and its gradient.
std::pair<double, std::vector<double>> step(const PipelineSchedule& schedule) {
  std::vector<double> gradient;
  const Timed run = run_on(ideal(), 3, [&](Communicator& world) {
    const std::vector<LayerPtr> stage = make_linear_net({3, 8}, world.rank(), world.rank() + 1);
    Pipeline pipeline(world, {stage});
    std::vector<PipelineMicrobatch> batch;
    for (int i = 0; i < 5; ++i)
      batch.push_back({drawn_rows(10, 8).rows(2 * i, 2 * i + 2), {2, 8}, DType::f32, {}});
    pipeline.run(schedule, batch, [](size_t, const Tensor& y, Tensor& dy) {
      dy = y;
      return half_square(y);
    });
    if (world.rank() == 0) gradient = parameters(stage)[0]->grad.values();
  });
  return {run.idle_share(0) * run.seconds() / forward_flops({1, 8}, 2), gradient};
}

int main() {
  const auto [plain, gradient] = step(make_schedule(PipelineKind::one_f_one_b, 3, 5));
  const auto [filled, same] = step(zero_bubble_schedule(ZeroBubble::H1, 3, 5));
  fmt::print("idle: {:.0f} units of time with 1F1B, {:.0f} with ZB-H1\n", plain, filled);
  const bool right = std::abs(plain - 6) < 1e-9 && std::abs(filled - 2) < 1e-9;
  if (!right || same != gradient) fmt::print("6 and 2 are right, and the same gradients\n");
  return right && same == gradient ? 0 : 1;
}
