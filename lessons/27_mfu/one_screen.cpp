// MFU: the share of a chip's peak that the model's own FLOPs make up, here of a described H100.
// What is lost is in the waterfall: its lines and the MFU add up to 100%.
// HFU also counts what backward computes again: nothing here.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/plan/mfu.hpp"

using namespace yotta;

int main() {
  const LinearNetConfig config{.layers = 8, .width = 2048};
  const int64_t rows = 4096;
  const Timed run = run_on(cluster_named("h100x8"), 1, [&](Communicator&) {
    const DeviceScope meta(Device::meta);  // shapes and costs, without numbers
    const std::vector<LayerPtr> net = make_linear_net(config, {.dtype = DType::bf16});
    Saved saved;
    const Tensor y = forward(net, Tensor::empty({rows, config.width}, DType::bf16), saved);
    backward(net, y, saved);
    Sgd(parameters(net)).step(0.01);
  });
  const MfuMachine h100 = mfu_machine(chip_named("h100"), DType::bf16);
  const Waterfall waterfall = waterfall_of(run.trace, h100, step_flops(config, rows));
  fmt::print("{}", waterfall_text(waterfall));
  double sum = waterfall.mfu();
  for (const LostTime& each : waterfall.lines()) sum += each.seconds / waterfall.all();
  const double expected = step_flops(config, rows) / run.seconds() / 989.4e12;
  const bool right = std::abs(sum - 1) < 1e-9 && waterfall.share(Loss::clock) < 1e-9 &&
                     std::abs(waterfall.mfu() - expected) < 1e-9;
  if (!right) fmt::print("an MFU of {} is right, and lines that add up to 100%\n", expected);
  return right ? 0 : 1;
}
