#include "yotta/nn/flex_core.hpp"

#include <doctest/doctest.h>

#include "nn/attention_inputs.hpp"
#include "nn/gradient_check.hpp"
#include "support/largest.hpp"
#include "yotta/nn/flex_attention.hpp"
#include "yotta/nn/loss.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 2, T = 23, vocabulary = 11;  // no tile of 8 divides T

// Two sequences: of documents of 9, 1 and 13 tokens, and of 4 and 19.
constexpr int64_t lengths[] = {9, 1, 13, 4, 19};
std::vector<int32_t> documents() {
  std::vector<int32_t> all;
  for (int32_t which = 0; const int64_t n : lengths) {
    if (all.size() == T) which = 0;
    all.insert(all.end(), static_cast<size_t>(n), which++);
  }
  return all;
}

const MaskOptions masks[] = {
    {},
    {.window = 5},
    {.prefix = 3},
    {.window = 4, .prefix = 2},
    {.document = true},
    {.document = true, .window = 5},
    {.document = true, .prefix = 3},
    {.alibi = true},
    {.document = true, .window = 6, .alibi = true},
};
MaskOptions in_tiles(MaskOptions mask, int64_t tile) {
  mask.tile = tile;
  return mask;
}

// Who sees whom, in other words than the mask's.
bool sees(const MaskOptions& mask, int b, int q, int kv) {
  static const std::vector<int32_t> of = documents();
  const auto document = [&](int t) {
    return mask.document ? of[static_cast<size_t>(b * T + t)] : 0;
  };
  if (document(q) != document(kv)) return false;
  int position = 0;
  while (position < kv && document(kv - position - 1) == document(kv)) ++position;
  if (position < mask.prefix) return true;
  return kv <= q && (mask.window == 0 || q - kv < mask.window);
}

}  // namespace

TEST_CASE("every mask: o, L, tiles and gradients are those of the dense reference") {
  for (const MaskOptions& each : masks) {
    const MaskOptions mask = in_tiles(each, 8);
    const auto tiles = whole_tiles(mask, documents(), T);
    const auto seen = [&](int b, int, int q, int kv) { return sees(mask, b, q, kv); };
    const std::vector<float> slopes = alibi_slopes(mask, 0, 4, 4);
    const auto score = [&](auto s, int, int h, int q, int kv) {
      return mask.alibi ? s - decltype(s)(std::exp2(-2.0 * (h + 1))) * decltype(s)(q - kv) : s;
    };
    const Inputs x = inputs(B, T, 4, 2, 6);
    const FlashAttention out = text_attention(x.q, x.k, x.v, *tiles, slopes);
    const FlashAttention dense = flex_attention_dense(x.q, x.k, x.v, score, seen);
    CHECK(largest_difference(out.o, dense.o) <= 1e-13);
    CHECK(largest_difference(out.log_sum_exp, dense.log_sum_exp) <= 1e-13);
    const auto expected =
        create_block_mask(seen, {.B = B, .H = 1, .queries = T, .keys = T, .BQ = 8, .BK = 8});
    CHECK(tiles->tiles().by_row.at == expected.by_row.at);
    CHECK(tiles->tiles().by_row.kind == expected.by_row.kind);

    AttentionGradients d{zero_sums(x.q), zero_sums(x.k), zero_sums(x.v)};
    text_attention_backward(x.dout, x.q, x.k, x.v, out, *tiles, slopes, d);
    const FlexGradients wanted =
        flex_attention_backward(x.dout, x.q, x.k, x.v, out, score, expected);
    CHECK(largest_difference(d.dq, wanted.dq) <= 1e-13);
    CHECK(largest_difference(d.dk, wanted.dk) <= 1e-13);
    CHECK(largest_difference(d.dv, wanted.dv) <= 1e-13);
  }
}

namespace {

TransformerConfig tiny(Dialect dialect, const MaskOptions& mask) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(2, 12, 2, T, vocabulary)
                                                 : llama_config(2, 16, 24, 4, 2, T, vocabulary);
  c.dtype = DType::f64;
  c.deviation = 0.3;
  c.attention = AttentionKind::flex, c.mask = in_tiles(mask, 8);
  return c;
}

Tensor ids(int64_t first, Shape shape) {
  Tensor drawn = Tensor::empty(std::move(shape), DType::i32);
  for (int64_t i = first; int32_t & id : drawn.span<int32_t>())
    id = static_cast<int32_t>((i * i + i / 7) % vocabulary), ++i;
  return drawn;
}

// Adds the gradients of some sequences to the model's; returns their part of the mean loss.
double pass(const Transformer& model, const Tensor& inputs, const Tensor& targets,
            const Packing* packing) {
  BatchPosition place;
  place.positions.packing = packing;
  Saved saved(place);
  Tensor dlogits;
  const double loss = loss_of(forward(model.stack(), inputs, saved), targets,
                              1.0 / static_cast<double>(B * T), &dlogits);
  backward(model.stack(), dlogits, saved);
  return loss;
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradients;
};
template <class Pass>
Outcome outcome(const TransformerConfig& config, Pass pass_all) {
  const Transformer model(config);
  const std::vector<ParameterPtr> all = parameters(model.stack());
  for (const ParameterPtr& each : all) each->zero_grad();
  Outcome out;
  out.loss = pass_all(model);
  for (const ParameterPtr& each : all)
    for (const double g : each->grad.values()) out.gradients.push_back(g);
  return out;
}
Outcome packed(const TransformerConfig& config) {
  return outcome(config, [](const Transformer& model) {
    const Packing packing = packing_of(documents(), T);
    return pass(model, ids(0, {B, T}), ids(1, {B, T}), &packing);
  });
}
// Each document alone, in a batch of its own: no packing, and no mask of documents.
Outcome apart(TransformerConfig config) {
  config.mask.document = false;
  return outcome(config, [](const Transformer& model) {
    double loss = 0;
    for (int64_t first = 0; const int64_t n : lengths) {
      loss += pass(model, ids(first, {1, n}), ids(first + 1, {1, n}), nullptr);
      first += n;
    }
    return loss;
  });
}

}  // namespace

TEST_CASE("packed documents: the loss and every gradient of documents that are trained apart") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const MaskOptions& mask : masks) {
      if (!mask.document || (mask.alibi && dialect == Dialect::gpt2)) continue;
      const TransformerConfig config = tiny(dialect, mask);
      const Outcome together = packed(config), alone = apart(config);
      CHECK(std::abs(together.loss - alone.loss) <= 1e-12);
      CHECK(largest(together.gradients, alone.gradients) <= 1e-12);
    }
}

TEST_CASE("a causal mask is blockwise attention's result, and ALiBi stands in rope's place") {
  TransformerConfig config = tiny(Dialect::llama, {});
  const auto run = [&](const TransformerConfig& c) {
    return outcome(c, [](const Transformer& model) {
      return pass(model, ids(0, {B, T}), ids(1, {B, T}), nullptr);
    });
  };
  const Outcome flex = run(config);
  config.attention = AttentionKind::blockwise, config.mask = {};
  CHECK(largest(flex.gradients, run(config).gradients) <= 1e-13);

  config = tiny(Dialect::llama, {.alibi = true});
  const Outcome alibi = run(config);
  config.rope_theta = 17;  // which nobody reads
  CHECK(run(config).gradients == alibi.gradients);
  CHECK(largest(flex.gradients, alibi.gradients) > 1e-3);
}

TEST_CASE("tiles of packed sequences are made once for all layers") {
  const TransformerConfig config = tiny(Dialect::gpt2, {.document = true});
  const Transformer model(config);
  const Packing packing = packing_of(documents(), T);
  for (const ParameterPtr& each : parameters(model.stack())) each->zero_grad();
  pass(model, ids(0, {B, T}), ids(1, {B, T}), &packing);
  const MadeOnce* const made = packing.made.get();
  REQUIRE(made != nullptr);
  pass(model, ids(0, {B, T}), ids(1, {B, T}), &packing);
  CHECK(packing.made.get() == made);
  const Packing other = packing_of(std::vector<int32_t>(3 * T), T);
  CHECK(contains(message_of([&] {
                   pass(model, ids(0, {B, T}), ids(1, {B, T}), &other);
                 }),
                 "46 tokens, and a packing of 69"));
}

TEST_CASE("masks that do not fit a model are refused") {
  const auto said = [](Dialect dialect, const MaskOptions& mask,
                       AttentionKind kind = AttentionKind::flex) {
    TransformerConfig config = tiny(dialect, mask);
    config.attention = kind;
    return message_of([&] { config.check(); });
  };
  CHECK(contains(said(Dialect::llama, {.window = 3}, AttentionKind::plain), "not plain"));
  CHECK(contains(said(Dialect::llama, {.window = T + 1}), "a window of 24 tokens"));
  CHECK(contains(said(Dialect::llama, {.window = -1}), "a window of -1 tokens"));
  CHECK(contains(said(Dialect::llama, {.prefix = T + 1}), "a prefix of 24 tokens in a context"));
  CHECK(contains(said(Dialect::gpt2, {.alibi = true}), "take the dialect llama"));
  CHECK(contains(said(Dialect::llama, {.prefix = 2, .alibi = true}), "keys that are ahead"));
}
