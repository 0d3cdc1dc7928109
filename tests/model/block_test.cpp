#include "yotta/model/block.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/embedding_layer.hpp"
#include "yotta/model/head.hpp"
#include "yotta/model/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients through both residual arms") {
  const BlockOptions options{
      .norm = {NormKind::layernorm, 6},
      .attention = {.width = 6, .heads = 3, .kv_heads = 3, .head_size = 2, .initial = normal(0.5)},
      .mlp = {.width = 6, .hidden = 9, .initial = normal(0.5), .initial_down = normal(0.5)}};
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Block>("b", options, ParameterOptions{1, DType::f64}));
  check_gradients(layers, random_tensor({2, 4, 6}, "x"));
}

TEST_CASE("arms that give zero leave the stream as it is, forward and backward") {
  const BlockOptions options{
      .norm = {NormKind::rmsnorm, 4},
      .attention = {.width = 4, .heads = 2, .kv_heads = 1, .head_size = 2, .initial_o = zeros()},
      .mlp = {.kind = MlpKind::swiglu, .width = 4, .hidden = 6, .initial_down = zeros()}};
  Block block("b", options);
  const Tensor x = random_tensor({1, 3, 4}, "x", DType::f32);
  Saved saved;
  CHECK(block.forward(x, saved).values() == x.values());
  CHECK(block.backward_input(x, saved).values() == x.values());
}

namespace {

// Bytes that a block keeps of each number of its input, on a rank of tp 8.
double bytes_kept(const TransformerConfig& c, SequenceCut cut, bool drops) {
  double bytes = 0;
  run_ranks(8, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    const Transformer model(c, 1, 2, {.tp = tp, .cp = {}, .sequence = cut});
    const std::vector<LayerPtr> layers =
        checkpointed(model.stack(), {drops ? Recompute::pointwise : Recompute::none});
    const Tensor x = cut.T > 0 ? Tensor::empty({c.context / 8, c.width}, DType::bf16)
                               : Tensor::empty({1, c.context, c.width}, DType::bf16);
    Saved saved({0, 0, 0, 0, true});
    const Tensor y = forward(layers, x, saved);
    if (tp.rank() == 0) bytes = static_cast<double>(saved.bytes()) / static_cast<double>(x.numel());
    backward(layers, y, saved);
    CHECK(saved.bytes() == 0);
  });
  return bytes;
}

}  // namespace

// x, norm1's output, q, k and v, o, x + attention, norm2's output: 2 bytes each of C numbers, k and
// v of C / 16. gate, up and their product: 2 each of 3.25 C.
TEST_CASE("a block of Llama 3 405B drops what its norms and SwiGLU have made: 10.5 bytes of 32") {
  TransformerConfig c = llama3_405b();
  c.dtype = DType::bf16;
  const double kept = bytes_kept(c, {c.context}, false);
  CHECK(kept == doctest::Approx(2 * (6 + 2 / 16.0 + 3 * 3.25)).epsilon(0.005));
  CHECK(kept - bytes_kept(c, {c.context}, true) == doctest::Approx(2 * (2 + 3.25)).epsilon(1e-9));
  // What was gathered would have to be sent again, so only SwiGLU's product is dropped.
  const SequenceCut keeps{c.context, true};
  CHECK(bytes_kept(c, keeps, false) - bytes_kept(c, keeps, true) ==
        doctest::Approx(2 * 3.25).epsilon(1e-9));
}

namespace {

// |a - b| / |b|, of all numbers together.
double relative_error(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.values(), right = b.values();
  double gap = 0, size = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    gap += (left[i] - right[i]) * (left[i] - right[i]);
    size += right[i] * right[i];
  }
  return left.size() == right.size() ? std::sqrt(gap / size) : std::nan("");
}

// The same layer in bf16 and in f32, with the same weights and inputs: y, dx and every gradient of
// a weight. A rounding to bf16 is at most 2^-8 of a number, mostly less; `roundings` of them are
// allowed.
void check_against_f32(const std::string& what, Layer& narrow, Layer& wide, const Tensor& x,
                       double roundings) {
  CAPTURE(what);
  std::vector<ParameterPtr> of_narrow, of_wide;
  narrow.add_parameters(of_narrow);
  wide.add_parameters(of_wide);
  for (size_t i = 0; i < of_wide.size(); ++i) of_wide[i]->value.copy_from(of_narrow[i]->value);
  const bool is_ids = x.dtype() == DType::i32;
  Saved kept({0, 0, 0, 0, true}), kept_wide({0, 0, 0, 0, true});
  const Tensor y = narrow.forward(x, kept);
  const Tensor expected = wide.forward(is_ids ? x : x.to(DType::f32), kept_wide);
  CHECK(y.dtype() == DType::bf16);
  CHECK(relative_error(y, expected) <= roundings * 0x1p-8);
  const Tensor dy = random_tensor(y.shape(), "dy", DType::bf16);
  const Tensor dx = narrow.backward_input(dy, kept);
  const Tensor expected_dx = wide.backward_input(dy.to(DType::f32), kept_wide);
  if (!is_ids) {
    CHECK(dx.dtype() == DType::bf16);
    CHECK(relative_error(dx, expected_dx) <= roundings * 0x1p-8);
  }
  narrow.backward_weight(kept);
  wide.backward_weight(kept_wide);
  for (size_t i = 0; i < of_wide.size(); ++i) {
    if (of_wide[i]->name.ends_with(".k.bias")) continue;  // its gradient is rounding alone
    CAPTURE(of_wide[i]->name);
    CHECK(of_narrow[i]->grad.dtype() == DType::f32);
    CHECK(relative_error(of_narrow[i]->grad, of_wide[i]->grad) <= roundings * 0x1p-8);
  }
}

}  // namespace

TEST_CASE("each layer in bf16: y, dx and gradients of weights are f32's but for a few roundings") {
  const ParameterOptions bf16{3, DType::bf16}, f32{3, DType::f32};
  const Tensor x = random_tensor({2, 12, 32}, "x", DType::bf16);
  const Initial initial = normal(0.2);
  const auto check = [&](const std::string& what, const auto& make, double roundings) {
    const auto narrow = make(bf16), wide = make(f32);
    check_against_f32(what, *narrow, *wide, x, roundings);
  };
  check(
      "linear",
      [&](auto& made) {
        return std::make_unique<Linear>("l", LinearOptions{32, 24, true, initial}, made);
      },
      1);
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    check(
        "norm",
        [&](auto& made) {
          return std::make_unique<Norm>("n", NormOptions{kind, 32}, made);
        },
        1);
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    check(
        "mlp",
        [&](auto& made) {
          return std::make_unique<Mlp>("m", MlpOptions{kind, 32, 48, false, 0.1, initial, initial},
                                       made);
        },
        2);
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise})
    for (const double theta : {0.0, 1e4}) {
      const AttentionOptions o{.width = 32,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_size = 8,
                               .kind = kind,
                               .rope_theta = theta,
                               .dropout = 0.1,
                               .initial = initial,
                               .initial_o = initial};
      check(
          "attention", [&](auto& made) { return std::make_unique<Attention>("a", o, made); }, 3);
      const BlockOptions block{
          {NormKind::rmsnorm, 32}, o, {MlpKind::swiglu, 32, 48, false, 0.1, initial, initial}};
      check(
          "block", [&](auto& made) { return std::make_unique<Block>("b", block, made); }, 4);
    }
  check(
      "head",
      [&](auto& made) {
        return std::make_unique<Head>(NormOptions{NormKind::layernorm, 32}, 50, initial, made);
      },
      2);
  TokenEmbedding narrow("e", {50, 32, 12}, bf16), wide("e", {50, 32, 12}, f32);
  Tensor ids = Tensor::empty({2, 12}, DType::i32);
  for (int32_t& id : ids.span<int32_t>())
    id = static_cast<int32_t>(&id - ids.data<int32_t>()) * 7 % 50;
  check_against_f32("embedding", narrow, wide, ids, 1);
}
