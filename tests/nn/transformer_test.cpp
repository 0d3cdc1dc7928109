#include "yotta/nn/transformer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
TransformerConfig tiny(Dialect dialect, bool tied) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(2, 12, 2, 7, 11)
                                                 : llama_config(2, 16, 20, 4, 2, 7, 11);
  c.tied = tied;
  c.deviation = 0.3;  // gradients large enough to be measured
  c.dtype = DType::f64;
  c.seed = 5;
  return c;
}
Tensor ids(int64_t B, int64_t T, uint32_t vocabulary) {
  Tensor made = Tensor::empty({B, T}, DType::i32);
  for (int64_t i = 0; i < B * T; ++i)
    made.data<int32_t>()[i] =
        static_cast<int32_t>(Random(3, "ids").below(static_cast<uint64_t>(i), vocabulary));
  return made;
}
Tensor logits(const TransformerConfig& c, const Tensor& tokens, const BatchPosition& place = {}) {
  const Transformer model(c);
  Saved saved(place);
  return forward(model.stack(), tokens, saved);
}
}  // namespace

TEST_CASE("every gradient of the tiny transformer, both dialects, tied and untied") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {false, true}) {
      CAPTURE(std::string(name(dialect)));
      CAPTURE(tied);
      const Transformer model(tiny(dialect, tied));
      check_gradients(model.stack(), ids(2, 5, 11), {0, 0, 0, 1});
    }
}

TEST_CASE("every gradient with plain attention and dropout everywhere") {
  TransformerConfig c = tiny(Dialect::gpt2, true);
  c.attention = AttentionKind::plain;
  c.dropout = 0.2;
  c.attention_dropout = 0.3;
  const Transformer model(c);
  check_gradients(model.stack(), ids(2, 5, 11), {1, 2, 3, 0, true});
}

TEST_CASE("blockwise attention gives plain's logits and gradients, with far less memory") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    TransformerConfig c = tiny(dialect, true);
    c.context = 70;
    const Tensor tokens = ids(2, 70, 11);
    c.attention = AttentionKind::plain;
    const Transformer plain(c);
    c.attention = AttentionKind::blockwise;
    const Transformer blockwise(c);
    Saved a, b;
    const Tensor y = forward(plain.stack(), tokens, a);
    CHECK(largest_difference(forward(blockwise.stack(), tokens, b), y) <= 1e-12);
    const int64_t scores = c.layers * 2 * c.heads * 70 * 70 * 8;
    CHECK(a.bytes() - b.bytes() == scores - c.layers * 2 * c.heads * 70 * 8);
    backward(plain.stack(), y, a);
    backward(blockwise.stack(), y, b);
    const std::vector<ParameterPtr> left = parameters(plain.stack());
    const std::vector<ParameterPtr> right = parameters(blockwise.stack());
    for (size_t i = 0; i < left.size(); ++i)
      CHECK(largest_difference(left[i]->grad, right[i]->grad) <= 1e-10);
  }
}

TEST_CASE("a token's logits depend on what came before it, and on nothing after") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig c = tiny(dialect, true);
    Tensor tokens = ids(1, 6, 11);
    const Tensor before = logits(c, tokens).reshape({6, 11});
    tokens.data<int32_t>()[3] = (tokens.data<int32_t>()[3] + 1) % 11;
    const Tensor after = logits(c, tokens).reshape({6, 11});
    CHECK(before.rows(0, 3).values() == after.rows(0, 3).values());
    for (int64_t t = 3; t < 6; ++t)
      CHECK(largest_difference(before.rows(t, t + 1), after.rows(t, t + 1)) > 1e-6);
  }
}

TEST_CASE("a slice of the stack is that part of the whole model, with the whole's values") {
  for (const bool tied : {false, true}) {
    const TransformerConfig c = tiny(Dialect::gpt2, tied);
    const Tensor tokens = ids(2, 5, 11);
    const Tensor whole = logits(c, tokens);
    for (int64_t cut = 0; cut <= Transformer::entries(c); ++cut) {
      const Transformer first(c, 0, cut), second(c, cut, Transformer::entries(c));
      Saved a, b;
      CHECK(forward(second.stack(), forward(first.stack(), tokens, a), b).values() ==
            whole.values());
    }
  }
}

TEST_CASE("parameters are counted by the formula, named, and tied ones have two uses") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {false, true}) {
      const TransformerConfig c = tiny(dialect, tied);
      const Transformer model(c);
      CHECK(parameter_count(model.stack()) == parameters(c));
      const std::vector<ParameterPtr> all = parameters(model.stack());
      CHECK(all[0]->name == "embedding.token.weight");
      CHECK(all[0]->uses == (tied ? 2 : 1));
      CHECK(all.back()->name == (!tied                      ? "head.weight"
                                 : dialect == Dialect::gpt2 ? "norm.bias"
                                                            : "norm.weight"));
    }
}

TEST_CASE("the published counts are those of models on meta") {
  const DeviceScope meta(Device::meta);
  CHECK(parameter_count(Transformer(gpt2_124m()).stack()) == 124'439'808);
  CHECK(parameter_count(Transformer(llama3_8b()).stack()) == 8'030'261'248);
  CHECK(parameter_count(Transformer(llama3_405b()).stack()) == 405'853'388'800);
}

// 6 N n counts two FLOPs per weight and token, three times. The embedding only copies rows, so an
// untied table does none of it; norms and biases do a little of their own, counted under their own
// names.
TEST_CASE("Llama 3 8B runs forward and backward on meta, and its ledger is the formula's") {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const TransformerConfig c = llama3_8b();
  const int64_t B = 2, T = 8192, V = c.vocabulary;
  const Transformer model(c);
  Saved saved;
  forward(model.stack(), Tensor::empty({B, T}, DType::i32), saved);
  const int64_t kept = saved.bytes();
  backward(model.stack(), Tensor::empty({B, T, V}), saved);

  const Ledger& ledger = rank.ledger;
  const double matrices =
      static_cast<double>(parameters(c) - V * c.width - (2 * c.layers + 1) * norm_parameters(c));
  const double linear = ledger.op("linear").flops + ledger.op("linear_backward_input").flops +
                        ledger.op("linear_backward_weight").flops;
  CHECK(linear == 6 * matrices * static_cast<double>(B * T));
  const double square = static_cast<double>(B * c.layers * c.width * T * T);
  CHECK(ledger.op("flash_attention").flops == 2 * square);  // the causal half of 4
  CHECK(linear / step_flops(c, B, T) > 0.7);
  CHECK(ledger.memory()->peak(MemoryKind::gradients) == 4 * parameters(c));
  CHECK(ledger.memory()->live(MemoryKind::parameters) == 4 * parameters(c));

  // Kept a layer, in numbers per token: norms' x 2 C and rstd 2, their outputs 2 C, q and o 2 C, k
  // and v 2 C K / H, log-sum-exp H, and g, h and their product 3 F. Head: x, rstd, norm's output.
  // And the ids.
  const int64_t layer = 6 * c.width + 2 * c.kv_width() + 2 + c.heads + 3 * c.feed_forward;
  CHECK(kept == 4 * B * T * (c.layers * layer + 2 * c.width + 1 + 1));
  CHECK(saved.bytes() == 0);
}

TEST_CASE("a rank that holds later positions knows where they are") {
  TransformerConfig c = tiny(Dialect::gpt2, true);
  c.layers = 0;  // no attention: each position is on its own
  const Tensor tokens = ids(1, 6, 11);
  const Tensor whole = logits(c, tokens).reshape({6, 11});
  const Tensor later = tokens.reshape({6}).rows(2, 6).reshape({1, 4});
  CHECK(largest_difference(logits(c, later, {.positions = 2}).reshape({4, 11}), whole.rows(2, 6)) <=
        1e-12);
  CHECK(largest_difference(logits(c, later).reshape({4, 11}), whole.rows(2, 6)) > 1e-3);

  // Rope turns by distances: shifting a whole sequence changes nothing, moving a token would.
  c = tiny(Dialect::llama, true);
  CHECK(largest_difference(logits(c, tokens, {.positions = 9}), logits(c, tokens)) <= 1e-12);
  c.rope_theta = 2;
  const Tensor turned = logits(c, tokens);
  c.rope_theta = 10000;
  CHECK(largest_difference(turned, logits(c, tokens)) > 1e-3);
}

TEST_CASE("dropout draws the same for any cut of the batch, and anew at every step") {
  TransformerConfig c = tiny(Dialect::gpt2, true);
  c.attention = AttentionKind::plain;
  c.dropout = 0.5;
  c.attention_dropout = 0.5;
  const Tensor tokens = ids(3, 5, 11);
  const Tensor whole = logits(c, tokens, {.seed = 1, .step = 4, .training = true});
  CHECK(logits(c, tokens, {.seed = 1, .step = 4, .training = true}).values() == whole.values());
  CHECK(logits(c, tokens, {.seed = 1, .step = 5, .training = true}).values() != whole.values());
  CHECK(logits(c, tokens, {.seed = 2, .step = 4, .training = true}).values() != whole.values());
  for (int64_t b = 0; b < 3; ++b)
    CHECK(largest_difference(logits(c, tokens.rows(b, b + 1), {1, 4, b, 0, true}),
                             whole.rows(b, b + 1)) <= 1e-12);
}

TEST_CASE("outside training nothing is dropped") {
  TransformerConfig c = tiny(Dialect::gpt2, true);
  c.attention = AttentionKind::plain;
  const Tensor whole = logits(c, ids(3, 5, 11));
  c.dropout = c.attention_dropout = 0.5;
  CHECK(logits(c, ids(3, 5, 11)).values() == whole.values());
}

TEST_CASE("gradients become final from the head down, each once; a tied table's is the last") {
  for (const bool tied : {false, true}) {
    const Transformer model(tiny(Dialect::gpt2, tied));
    std::vector<std::string> order;
    for (const ParameterPtr& each : parameters(model.stack()))
      each->on_grad_ready = [&](Parameter& self) { order.push_back(self.name); };
    Saved saved;
    backward(model.stack(), forward(model.stack(), ids(2, 5, 11), saved), saved);
    CHECK(order.size() == parameters(model.stack()).size());
    CHECK(order.front() == (tied ? "norm.weight" : "head.weight"));
    const auto place = [&](const char* name) {
      return std::find(order.begin(), order.end(), name) - order.begin();
    };
    CHECK(place("norm.weight") < place("layers.1.mlp.down.weight"));
    CHECK(place("layers.1.mlp.down.weight") < place("layers.1.attention.q.weight"));
    CHECK(place("layers.1.norm1.bias") < place("layers.0.mlp.down.weight"));
    CHECK(place("layers.0.norm1.bias") < place("embedding.token.weight"));
    CHECK(place("embedding.token.weight") >= std::ssize(order) - 2);
  }
}

TEST_CASE("the first weights are GPT-2's: 0.02, and less for what is added to the stream") {
  const TransformerConfig c = gpt2_config(8, 64, 4, 16, 50);
  const Transformer model(c);
  for (const ParameterPtr& each : parameters(model.stack())) {
    const auto ends = [&](const char* suffix) { return each->name.ends_with(suffix); };
    double squares = 0;
    for (const double w : each->value.values()) squares += w * w;
    const double deviation = std::sqrt(squares / static_cast<double>(each->value.numel()));
    CAPTURE(each->name);
    const bool is_norm =
        ends("norm1.weight") || ends("norm2.weight") || each->name == "norm.weight";
    const bool is_residual = ends("attention.o.weight") || ends("mlp.down.weight");
    if (ends("bias") || is_norm)
      CHECK(deviation == (is_norm ? 1 : 0));
    else
      CHECK(std::abs(deviation / (is_residual ? 0.02 / 4 : 0.02) - 1) <= 0.05);
  }
}

TEST_CASE("wrong ids, sequences and slices are refused in words") {
  const Transformer model(tiny(Dialect::gpt2, true));
  const auto run = [&](const Tensor& x) {
    return message_of([&] {
      Saved saved;
      forward(model.stack(), x, saved);
    });
  };
  CHECK(contains(run(Tensor::full({1, 2}, 11, DType::i32)), "outside the vocabulary of 11"));
  CHECK(contains(run(Tensor::full({1, 8}, 0, DType::i32)), "positions 0 to 8 are needed"));
  CHECK(contains(run(Tensor::full({3}, 0, DType::i32)), "expected (B, T)"));
  CHECK(contains(message_of([&] { Transformer(tiny(Dialect::gpt2, true), 2, 9); }), "2 to 9"));
}
