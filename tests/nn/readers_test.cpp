#include "yotta/nn/readers.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("readers of one x: each has its own y, and dx is the sum of what they give back") {
  const ParameterOptions in_f64{1, DType::f64};
  Readers readers;
  for (const int64_t outputs : {3, 5})
    readers.add(std::make_unique<Linear>("r" + std::to_string(outputs),
                                         LinearOptions{4, outputs, false, normal(1)}, in_f64));
  Tensor x = random_tensor({2, 3, 4}, "x");
  const Tensor da = random_tensor({2, 3, 3}, "a"), db = random_tensor({2, 3, 5}, "b");
  const auto loss = [&] {
    Saved saved;
    const std::vector<Tensor> ys = readers.forward(x, saved);
    return dot(ys[0], da) + dot(ys[1], db);
  };
  Saved saved;
  readers.forward(x, saved);
  CHECK(readers.keeping_x(saved).size() == 2);
  const Tensor dx = readers.backward_input({da, db}, saved);
  CHECK(gradient_mismatch(x, dx, loss) == "");
  readers.backward_weight(saved);
  CHECK(saved.bytes() == 0);
  std::vector<Layer*> layers;
  readers.add_layers(layers);
  REQUIRE(layers.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(layers[i] == &readers[i]);
    Parameter& weight = readers[i].weight_parameter();
    CHECK(gradient_mismatch(weight.value, weight.grad, loss) == "");
  }
}
