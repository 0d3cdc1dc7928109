#include "yotta/nn/linear_net.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients of the linear net") {
  check_gradients(make_linear_net({3, 5}, {4, DType::f64}), random_tensor({6, 5}, "x"));
}

TEST_CASE("parameters, activations and FLOPs are those of the formulas, 2 included, also on meta") {
  for (const Device device : {Device::cpu, Device::meta}) {
    RankContext rank;
    const ContextScope scope(rank);
    const DeviceScope on(device);
    const LinearNetConfig config{5, 12};
    const std::vector<LayerPtr> net = make_linear_net(config);
    CHECK(parameter_count(Layers(net)) == parameters(config));
    Saved saved;
    const Tensor y = forward(net, Tensor::zeros({7, 12}), saved);
    CHECK(rank.ledger.total_flops() == forward_flops(config, 7));
    CHECK(rank.ledger.total_flops() == 2.0 * 5 * 12 * 12 * 7);
    CHECK(saved.bytes() == 4 * saved_numbers(config, 7));
    backward(net, y, saved);
    CHECK(rank.ledger.total_flops() == step_flops(config, 7));
  }
}

TEST_CASE("two stages are the whole net, cut anywhere") {
  const LinearNetConfig config{4, 6};
  const std::vector<LayerPtr> whole = make_linear_net(config);
  const Tensor x = random_tensor({3, 6}, "x", DType::f32);
  Saved saved;
  const Tensor y = forward(whole, x, saved);
  for (int64_t cut = 0; cut <= 4; ++cut) {
    const std::vector<LayerPtr> first = make_linear_net(config, 0, cut);
    const std::vector<LayerPtr> second = make_linear_net(config, cut, 4);
    Saved a, b;
    CHECK(forward(second, forward(first, x, a), b).values() == y.values());
    CHECK(forward(Layers(whole).subspan(static_cast<size_t>(cut)),
                  forward(Layers(whole).first(static_cast<size_t>(cut)), x, a), b)
              .values() == y.values());
  }
}

TEST_CASE("half of the sum of squares has y as its gradient, and the batch is the same each time") {
  const Tensor x = drawn_rows(3, 4), y = Tensor::from<float>({1, -2, 3}, {3});
  CHECK(x.shape() == Shape{3, 4});
  CHECK(x.values() == drawn_rows(3, 4).values());
  CHECK(x.rows(0, 2).values() == drawn_rows(2, 4).values());
  CHECK(half_square(y) == (1 + 4 + 9) / 2.0);
  CHECK(std::isnan(half_square(Tensor::full({2}, std::nan("")))));
  const DeviceScope meta(Device::meta);
  CHECK(half_square(Tensor::empty({2})) == 0);
}
