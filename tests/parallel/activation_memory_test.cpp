#include "yotta/parallel/activation_memory.hpp"

#include <doctest/doctest.h>

#include "support/cut_model.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

struct Shape3 {
  int64_t s, b, h, a;
};
constexpr Shape3 shapes[] = {{16, 2, 24, 3}, {7, 3, 8, 2}, {1, 1, 4, 1}, {64, 1, 16, 4}};

ActivationSizes sizes(const Shape3& z) {
  return {static_cast<double>(z.s), static_cast<double>(z.b), static_cast<double>(z.h),
          static_cast<double>(z.a), 1};
}

TransformerConfig layer_config(const Shape3& z, DType dtype) {
  TransformerConfig c = gpt2_config(1, z.h, z.a, z.s, 11);
  c.attention = AttentionKind::plain;
  c.dropout = c.attention_dropout = 0.1;
  c.dtype = dtype;
  return c;
}

// Bytes that one block's Saved holds after forward.
int64_t counted(const Shape3& z, DType dtype, const CheckpointOptions& options) {
  const Transformer model(layer_config(z, dtype), 1, 2);  // the block alone
  const std::vector<LayerPtr> layers = checkpointed(model.stack(), options);
  Saved saved({0, 0, 0, 0, true});
  forward(layers, Tensor::full({z.b, z.s, z.h}, 1, dtype), saved);
  return saved.bytes();
}

}  // namespace

TEST_CASE(
    "a layer's counted bytes are the formula's: nothing, attention and all of it recomputed, f32, "
    "f64 and bf16") {
  for (const Shape3& z : shapes)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      CAPTURE(z.s);
      const double number = static_cast<double>(bytes_of(dtype));
      const auto same = [&](const CheckpointOptions& options, Recomputed what) {
        CHECK(counted(z, dtype, options) == saved_bytes(sizes(z), what, number));
      };
      same({Recompute::none}, Recomputed::none);
      same({Recompute::attention}, Recomputed::attention);
      same({Recompute::all}, Recomputed::all);
    }
}

TEST_CASE("on tp ranks too: all tokens outside, own ones with all that was gathered, own ones") {
  const Shape3 z{16, 2, 24, 4};
  struct Kept {
    TokenCut cut;
    TokensKept tokens;
  };
  for (const Kept& kept : {Kept{{}, TokensKept::all}, Kept{{16, true}, TokensKept::gathered},
                           Kept{{16, false}, TokensKept::own}})
    for (const int ranks : {1, 2, 4})
      for (const DType dtype : {DType::f32, DType::bf16})
        run_ranks(ranks, [&](Communicator& tp) {
          ActivationSizes size = sizes(z);
          size.t = ranks;
          const double number = static_cast<double>(bytes_of(dtype));
          Transformer model(layer_config(z, dtype), 1, 2);
          cut_model(model, tp, kept.cut);
          const bool cut = kept.cut.T > 0 && ranks > 1;
          const Tensor x = cut ? Tensor::full({z.b * z.s / ranks, z.h}, 1, dtype)
                               : Tensor::full({z.b, z.s, z.h}, 1, dtype);
          const auto same = [&](Recompute recompute, Recomputed what) {
            const auto layers = checkpointed(model.stack(), {recompute});
            Saved saved({0, 0, 0, 0, true});
            forward(layers, x, saved);
            CHECK(static_cast<double>(saved.bytes()) ==
                  doctest::Approx(saved_bytes(size, what, number, kept.tokens)).epsilon(1e-14));
          };
          same(Recompute::none, Recomputed::none);
          same(Recompute::attention, Recomputed::attention);
          same(Recompute::all, Recomputed::all);
        });
}

TEST_CASE("term by term: what the paper counts and we do not, and the other way round") {
  for (const Shape3& z : shapes) {
    const ActivationSizes size = sizes(z);
    const double squares = size.a * size.s * size.s * size.b, rows = size.s * size.b;
    const double dropped_probabilities = 2 * squares, norms = 4 * 4 * rows;  // f32
    for (const Recomputed what : {Recomputed::none, Recomputed::attention, Recomputed::all}) {
      double paper = activation_bytes_per_layer(size, false, what);
      if (what == Recomputed::none) paper -= dropped_probabilities;
      if (what != Recomputed::all) paper += norms;
      CHECK(saved_bytes(size, what, 2) == doctest::Approx(paper).epsilon(1e-14));
    }
  }
}

TEST_CASE("the parts of one layer, from its tree") {
  const Shape3 z = shapes[0];
  const int64_t x = 4 * z.s * z.b * z.h, mask = z.s * z.b * z.h, row = 4 * z.s * z.b;
  const int64_t squares = z.a * z.s * z.s * z.b;
  const Transformer model(layer_config(z, DType::f32), 1, 2);
  Saved saved({0, 0, 0, 0, true});
  forward(model.stack(), Tensor::full({z.b, z.s, z.h}, 1), saved);
  Saved& block = saved.child("layers.0");
  CHECK(block.child("layers.0.norm1").bytes() == x + 2 * row);
  CHECK(block.child("layers.0.norm2").bytes() == x + 2 * row);
  // q, k, v, their shared input, o's input: 5; probabilities and their mask; dropout's mask.
  CHECK(block.child("layers.0.attention").bytes() == 5 * x + 5 * squares + mask);
  // up's input 1, gelu's 4, down's 4; dropout's mask.
  CHECK(block.child("layers.0.mlp").bytes() == 9 * x + mask);
}

TEST_CASE("blockwise attention keeps no square: one number per row and head instead") {
  for (const Shape3& z : shapes)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      TransformerConfig config = layer_config(z, dtype);
      config.attention = AttentionKind::blockwise;
      config.attention_dropout = 0;
      const Transformer model(config, 1, 2);
      Saved saved({0, 0, 0, 0, true});
      forward(model.stack(), Tensor::full({z.b, z.s, z.h}, 1, dtype), saved);
      CHECK(saved.bytes() == saved_bytes(sizes(z), Recomputed::attention,
                                         static_cast<double>(bytes_of(dtype))) +
                                 4.0 * static_cast<double>(z.a * z.s * z.b));  // f32, always
    }
}

namespace {

// Bytes that a block keeps of each number of its input, on a rank of tp 8.
double bytes_kept(const TransformerConfig& c, const TokenCut& cut, bool drops) {
  double bytes = 0;
  run_ranks(8, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(c, 1, 2);
    cut_model(model, tp, cut);
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
  const TokenCut keeps{c.context, true};
  CHECK(bytes_kept(c, keeps, false) - bytes_kept(c, keeps, true) ==
        doctest::Approx(2 * 3.25).epsilon(1e-9));
}
