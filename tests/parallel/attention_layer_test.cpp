#include "yotta/parallel/attention_layer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"

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

TEST_CASE("gradients of scaled rope: q and k are turned back by the angles that turned them") {
  AttentionOptions o = options(AttentionKind::plain, 2, 100);
  o.head_size = 4;
  o.rope_scaling = {8, 1, 4, 16};
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Attention>("a", o, ParameterOptions{1, DType::f64}));
  check_gradients(layers, random_tensor({2, 5, 6}, "x"), {0, 0, 0, 3});
}

TEST_CASE("kept: x, q, k, v, o, and plain's T x T or blockwise's one number per row") {
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

// Heads over ranks, dropout of probabilities and of the output included: each head's mask is that
// of its number in the whole layer.
TEST_CASE("heads over 1 to 8 ranks are the serial layer, grouped queries and dropout included") {
  struct Sizes {
    int64_t heads, kv_heads;
    std::vector<int> ranks;
  };
  const Tensor x = random_tensor({2, 5, 6}, "x"), dy = random_tensor({2, 5, 6}, "dy");
  for (const Sizes& sizes :
       {Sizes{8, 8, {1, 2, 4, 8}}, Sizes{8, 2, {1, 2}}, Sizes{6, 3, {1, 3}}, Sizes{8, 4, {4}}})
    for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
      AttentionOptions o = options(kind, sizes.kv_heads, kind == AttentionKind::plain ? 0 : 100);
      o.heads = sizes.heads;
      o.dropout = 0.2;
      if (kind == AttentionKind::plain) o.probability_dropout = 0.4;
      const auto run = [&](Attention& layer, Tensor& dx) {
        Saved saved({.seed = 3, .step = 1, .first_sequence = 2, .training = true});
        const Tensor y = layer.forward(x, saved);
        dx = layer.backward_input(dy, saved);
        layer.backward_weight(saved);
        return y;
      };
      Attention serial("a", o, {1, DType::f64});
      ParameterPtrs whole;
      serial.add_parameters(whole);
      Tensor dx;
      const Tensor y = run(serial, dx);
      for (const int ranks : sizes.ranks) {
        int64_t forward = 0, backward = 0;
        for (const RankReport& rank : run_ranks(ranks, [&](Communicator& tp) {
               Attention part("a", o, {1, DType::f64}, {.tp = tp, .cp = {}});
               ParameterPtrs own;
               part.add_parameters(own);
               Tensor own_dx;
               check_equal(run(part, own_dx), y, "y", 1e-12, ranks);
               check_equal(own_dx, dx, "dx", 1e-12, ranks);
               check_parts(own, whole, &Parameter::value, ranks);
               check_parts(own, whole, &Parameter::grad, ranks);
             })) {
          forward += rank.ledger().traffic("tp.forward").bytes_sent;
          backward += rank.ledger().traffic("tp.backward").bytes_sent;
        }
        CHECK(forward == tensor_parallel_bytes_sent_by_all(ranks, x.numel(), 8));
        CHECK(backward == tensor_parallel_bytes_sent_by_all(ranks, x.numel(), 8));
      }
    }
}

TEST_CASE("heads that do not divide are refused") {
  const auto error = [](int ranks, int64_t kv_heads) {
    AttentionOptions o = options(AttentionKind::blockwise, kv_heads, 0);
    return error_of<RankFailed>(ranks, [&](Communicator& tp) {
      Attention("layers.0.attention", o, {}, {.tp = tp, .cp = {}});
    });
  };
  check_says(error(3, 4), {"layers.0.attention: 4 heads cannot be divided among the 3 ranks",
                           "the nearest number that can is 3"});
  check_says(error(4, 2), {"2 key/value heads cannot be divided among the 4 ranks"});
}
