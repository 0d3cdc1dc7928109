#include "yotta/parallel/replay.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// dx and all gradients of one microbatch.
std::vector<double> gradients(Layers layers, const Tensor& x) {
  zero_gradients(layers);
  Saved saved;
  const Tensor y = forward(layers, x, saved);
  std::vector<double> all = backward(layers, y, saved).values();
  CHECK(saved.bytes() == 0);
  for (const ParameterPtr& each : parameters(layers))
    for (const double g : each->grad.values()) all.push_back(g);
  return all;
}

}  // namespace

TEST_CASE("a replayed slice has the gradients of its layers, to the bit, whatever the schedule") {
  for (const int64_t n : {1, 2, 7}) {
    const std::vector<LayerPtr> net = make_linear_net({n, 4}, {1, DType::f64});
    const Tensor x = random_tensor({3, 4}, "x");
    const std::vector<double> expected = gradients(net, x);
    for (const ReplayActions& schedule :
         {revolve_schedule(n, 1), revolve_schedule(n, 2), restart_schedule(n, 3)}) {
      std::vector<LayerPtr> replayed;
      replayed.push_back(std::make_unique<Replay>(net, schedule));
      CHECK(gradients(replayed, x) == expected);
    }
  }
}

TEST_CASE("what is run and forgotten leaves nothing") {
  const std::vector<LayerPtr> net = make_linear_net({1, 4}, {1, DType::f64});
  const Tensor x = random_tensor({3, 4}, "x");
  Saved kept;
  CHECK(same_bits(run_and_forget(*net[0], x, {}), net[0]->forward(x, kept)));
}
