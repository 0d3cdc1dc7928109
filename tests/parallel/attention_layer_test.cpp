#include "yotta/parallel/attention_layer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
AttentionOptions options(AttentionKind kind, int64_t kv_heads, double theta) {
  return {.width = 6,
          .heads = 4,
          .kv_heads = kv_heads,
          .head_size = 2,
          .kind = kind,
          .bias = theta == 0,
          .rope_theta = theta,
          .initial = normal(0.5),
          .initial_o = normal(0.5)};
}
}  // namespace

TEST_CASE("gradients: plain and blockwise, with bias or rope, grouped or not, any head size") {
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise})
    for (const int64_t kv_heads : {1, 2, 4})
      for (const double theta : {0.0, 100.0}) {
        std::vector<LayerPtr> layers;
        layers.push_back(std::make_unique<Attention>("a", options(kind, kv_heads, theta),
                                                     ParameterOptions{1, DType::f64}));
        check_gradients(layers, random_tensor({2, 5, 6}, "x"), {0, 0, 0, 3});
      }
}

TEST_CASE("kept: x, q, k, v, o, and plain's T x T or blockwise's one number a row") {
  const int64_t B = 2, T = 5, C = 6, H = 4, K = 2, d = 2;
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
    Attention attention("a", options(kind, K, 0));
    Saved saved;
    attention.forward(Tensor::full({B, T, C}, 1), saved);
    const int64_t scores = kind == AttentionKind::plain ? B * H * T * T : B * H * T;
    CHECK(saved.bytes() == 4 * (B * T * (C + 2 * H * d + 2 * K * d) + scores));
    attention.backward_input(Tensor::full({B, T, C}, 1), saved);
    CHECK(saved.bytes() == 4 * B * T * (C + H * d + C + H * d + 2 * K * d));  // two x, four dy
    attention.backward_weight(saved);
    CHECK(saved.bytes() == 0);
  }
}

TEST_CASE("dropout of probabilities belongs to plain attention") {
  AttentionOptions o = options(AttentionKind::blockwise, 4, 0);
  o.probability_dropout = 0.1;
  CHECK(contains(message_of([&] { Attention("a", o); }), "needs plain attention"));
}
