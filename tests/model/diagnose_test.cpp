#include "yotta/model/diagnose.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;
using namespace yotta_test;

// Where the trainer uses these on a whole transformer: trainer_test.cpp.
TEST_CASE("the first layer is named, whichever it is; a sound model has none") {
  for (int64_t broken = 0; broken <= 3; ++broken) {
    const std::vector<LayerPtr> net = make_linear_net({3, 4});
    if (broken < 3) parameters(net)[static_cast<size_t>(broken)]->value.fill(INFINITY);
    const Microbatch batch{Tensor::full({2, 4}, 1), Tensor::zeros({2}, DType::i32)};
    Finding finding;
    check_layers(finding, net, batch, 0.5, {});
    CHECK(finding.what ==
          (broken == 3
               ? ""
               : fmt::format("the output of layers.{} is the first that is not finite", broken)));
  }
}

TEST_CASE("dlogits is the slope of the loss") {
  const Tensor logits = random_tensor({2, 3, 5}, "logits");
  const Microbatch batch{Tensor(), Tensor::from<int32_t>({0, 4, 2, 2, 1, 3}, {2, 3})};
  Tensor dlogits;
  const double loss = loss_of(logits.clone(), batch.targets, 0.25, &dlogits);
  CHECK(loss == loss_of(logits.clone(), batch.targets, 0.25, nullptr));
  check_slope("dlogits", logits, dlogits,
              [&] { return loss_of(logits.clone(), batch.targets, 0.25, nullptr); });
}

TEST_CASE("the largest gradient is named with its share") {
  const std::vector<LayerPtr> net = make_linear_net({2, 2});
  parameters(net)[0]->gradient().fill(1.5);
  parameters(net)[1]->gradient().fill(2);
  CHECK(largest_gradient(parameters(Layers(net))) ==
        "the largest gradient is that of layers.1.weight, norm 4 of 5");
}
