// The layers of a transformer, each alone.
#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// 4 heads of `d` numbers; GPT-2's has biases, Llama's rope.
TransformerConfig attention_config(AttentionKind kind, Dialect dialect, int64_t kv_heads,
                                   int64_t d = 2) {
  TransformerConfig c = gpt2_config(1, 4 * d, 4, 8, 1);
  c.dialect = dialect, c.kv_heads = kv_heads, c.rope_theta = 100, c.attention = kind;
  c.deviation = 0.5, c.dtype = DType::f64, c.seed = 1;
  return c;
}
}  // namespace

TEST_CASE("gradients: plain and blockwise, with bias or rope, grouped or not") {
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise})
    for (const int64_t kv_heads : {1, 2, 4})
      for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
        std::vector<LayerPtr> layers;
        layers.push_back(
            std::make_unique<Attention>("a", attention_config(kind, dialect, kv_heads)));
        check_gradients(layers, random_tensor({2, 5, 8}, "x"), {0, 0, 0, 3});
      }
}

TEST_CASE("gradients of scaled rope: q and k are turned back by the angles that turned them") {
  TransformerConfig c = attention_config(AttentionKind::plain, Dialect::llama, 2, 4);
  c.rope_scaling = {8, 1, 4, 16};
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Attention>("a", c));
  check_gradients(layers, random_tensor({2, 5, 16}, "x"), {0, 0, 0, 3});
}

TEST_CASE("kept: x, q, k, v, o, and plain's T x T or blockwise's one number per row") {
  const int64_t B = 2, T = 5, C = 8, H = 4, K = 2, d = 2;
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
    TransformerConfig c = attention_config(kind, Dialect::llama, K);
    c.dtype = DType::f32;
    Attention attention("a", c);
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
  TransformerConfig c = attention_config(AttentionKind::blockwise, Dialect::gpt2, 4);
  c.attention_dropout = 0.1;
  CHECK(contains(message_of([&] { Transformer{c}; }), "with plain attention"));
}

TEST_CASE("gradients of both kinds, with and without bias and dropout") {
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    for (const bool bias : {false, true}) {
      std::vector<LayerPtr> layers;
      layers.push_back(std::make_unique<Mlp>(
          "m", MlpOptions{kind, 5, 7, bias, bias ? 0.3 : 0.0, normal(0.5), normal(0.5)},
          ParameterOptions{1, DType::f64}));
      check_gradients(layers, random_tensor({2, 3, 5}, "x"), {1, 0, 0, 0, true});
    }
}

TEST_CASE(
    "kept: x, what enters the activation, what leaves it; then the gradients of the matrices") {
  const int64_t rows = 6, width = 8, hidden = 12;
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu}) {
    Mlp mlp("m", {kind, width, hidden, true});
    const int64_t matrices = kind == MlpKind::gelu ? 1 : 2;
    Saved saved;
    mlp.forward(Tensor::full({2, 3, width}, 1), saved);
    CHECK(saved.bytes() == 4 * rows * (width + (matrices + 1) * hidden));
    mlp.backward_input(Tensor::full({2, 3, width}, 1), saved);
    CHECK(saved.bytes() ==
          4 * rows * (2 * width + (1 + matrices) * hidden));  // x, down's x, dy of all
    mlp.backward_weight(saved);
    CHECK(saved.bytes() == 0);
  }
}

TEST_CASE("gradients through both residual arms") {
  TransformerConfig c = gpt2_config(1, 6, 3, 8, 1);
  c.feed_forward = 9, c.deviation = 0.5, c.dtype = DType::f64, c.seed = 1;
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Block>("b", c));
  check_gradients(layers, random_tensor({2, 4, 6}, "x"));
}

TEST_CASE("arms that give zero leave the stream as it is, forward and backward") {
  Block block("b", llama_config(1, 4, 6, 2, 1, 8, 1));
  block.attention.o->weight_parameter().value.zero();
  dynamic_cast<Mlp&>(*block.mlp).down->weight_parameter().value.zero();
  const Tensor x = random_tensor({1, 3, 4}, "x", DType::f32);
  Saved saved;
  CHECK(block.forward(x, saved).values() == x.values());
  CHECK(block.backward_input(x, saved).values() == x.values());
}

namespace {
// A table of 5 tokens, 4 wide, and of `positions` learned positions; 0: none.
TransformerConfig embedding_config(int64_t positions, double dropout = 0) {
  TransformerConfig c = gpt2_config(1, 4, 1, std::max<int64_t>(positions, 1), 5);
  if (positions == 0) c.dialect = Dialect::llama;
  c.deviation = 1, c.dtype = DType::f64, c.seed = 1, c.dropout = dropout;
  return c;
}
Tensor ids() { return Tensor::from<int32_t>({3, 0, 3, 1, 2, 3}, {2, 3}); }
}  // namespace

TEST_CASE("gradients of the table and of the positions, repeated tokens and dropout included") {
  for (const int64_t positions : {0, 7}) {
    std::vector<LayerPtr> layers;
    layers.push_back(std::make_unique<TokenEmbedding>("e", embedding_config(positions, 0.3)));
    check_gradients(layers, ids(), {0, 0, 0, 2, true});
  }
}

TEST_CASE("a row is the token's and its position's") {
  TokenEmbedding embedding("e", embedding_config(7));
  std::vector<ParameterPtr> own;
  embedding.add_parameters(own);
  CHECK(own[0]->name == "e.token.weight");
  CHECK(own[1]->name == "e.position.weight");
  Saved saved({.positions = 2});
  const Tensor y = embedding.forward(ids(), saved);
  CHECK(y.shape() == Shape{2, 3, 4});
  CHECK(y.item({1, 0, 2}) == own[0]->value.item({1, 2}) + own[1]->value.item({2, 2}));
  CHECK(y.item({0, 2, 3}) == own[0]->value.item({3, 3}) + own[1]->value.item({4, 3}));
  CHECK(saved.bytes() == 6 * 4);  // the ids
}

TEST_CASE("two runs of positions, each from its own first") {
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<TokenEmbedding>("e", embedding_config(9)));
  const Tensor tokens = Tensor::from<int32_t>({3, 0, 3, 1, 1, 2, 4, 0}, {2, 4});
  const Positions zigzag(1, 7);
  Saved saved(BatchPosition{.positions = zigzag});
  const Tensor y = layers[0]->forward(tokens, saved);
  const std::vector<ParameterPtr> own = parameters(Layers(layers));
  for (int64_t t = 0; t < 4; ++t)
    CHECK(y.item({1, t, 2}) == own[0]->value.item({int64_t(tokens.item({1, t})), 2}) +
                                   own[1]->value.item({zigzag.of(t, 4), 2}));
  check_gradients(layers, tokens, {.positions = zigzag});
}

TEST_CASE("no tokens at all") {
  TransformerConfig c = embedding_config(7);
  c.dtype = DType::f32;
  TokenEmbedding embedding("e", c);
  Saved saved;
  CHECK(embedding.forward(Tensor::zeros({0, 3}, DType::i32), saved).shape() == Shape{0, 3, 4});
  embedding.backward_input(Tensor::zeros({0, 3, 4}), saved);
  embedding.backward_weight(saved);
  CHECK(embedding.tokens->table()->grad.values() == std::vector<double>(20, 0.0));
}

TEST_CASE("gradients of a head with its own matrix, and with a table it shares") {
  TransformerConfig c = llama_config(1, 4, 4, 1, 1, 8, 7);
  c.deviation = 1, c.dtype = DType::f64, c.seed = 1;
  std::vector<LayerPtr> own, shared;
  own.push_back(std::make_unique<Head>(c));
  check_gradients(own, random_tensor({2, 3, 4}, "x"));
  const ParameterPtr table = make_parameter("table", {7, 4}, true, normal(1), 1, DType::f64);
  c.dialect = Dialect::gpt2, c.tied = true;
  shared.push_back(std::make_unique<Head>(c, table));
  check_gradients(shared, random_tensor({2, 3, 4}, "x"));
  CHECK(parameters(shared).back() == table);
  CHECK(parameters(own).back()->name == "head.weight");
  CHECK(parameters(own).front()->name == "norm.weight");
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

// 32 wide, 4 heads with 2 heads of keys, 50 tokens, 12 positions.
TransformerConfig of_dialect(Dialect dialect, const ParameterOptions& made) {
  TransformerConfig c = llama_config(1, 32, 48, 4, 2, 12, 50);
  c.dialect = dialect, c.deviation = 0.2, c.seed = made.seed, c.dtype = made.dtype;
  return c;
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
    for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
      const auto config = [&](const ParameterOptions& made) {
        TransformerConfig c = of_dialect(dialect, made);
        c.attention = kind, c.dropout = 0.1;
        return c;
      };
      check(
          "attention", [&](auto& made) { return std::make_unique<Attention>("a", config(made)); },
          3);
      check(
          "block", [&](auto& made) { return std::make_unique<Block>("b", config(made)); }, 4);
    }
  check(
      "head", [&](auto& made) { return std::make_unique<Head>(of_dialect(Dialect::gpt2, made)); },
      2);
  TokenEmbedding narrow("e", of_dialect(Dialect::gpt2, bf16)),
      wide("e", of_dialect(Dialect::gpt2, f32));
  Tensor ids = Tensor::empty({2, 12}, DType::i32);
  for (int32_t& id : ids.span<int32_t>())
    id = static_cast<int32_t>(&id - ids.data<int32_t>()) * 7 % 50;
  check_against_f32("embedding", narrow, wide, ids, 1);
}
