#include "yotta/nn/op.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "support/message_of.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/nn/softmax.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a result is made beside its input: same device, whatever the context says") {
  Tensor cpu = Tensor::zeros({2, 3}, DType::f64), meta;
  {
    const DeviceScope scope(Device::meta);
    meta = Tensor::zeros({2, 3});
    CHECK(empty_like(cpu, Where::current()).device() == Device::cpu);
    CHECK(zeros_like(cpu, Where::current()).values() == std::vector<double>(6));
  }
  CHECK(empty_like(meta, Where::current()).device() == Device::meta);
  const Tensor other = empty_beside(cpu, {4}, DType::i32, Where::current());
  CHECK(other.shape() == Shape{4});
  CHECK(other.dtype() == DType::i32);
}

TEST_CASE("wrong operands are named with the operation, both shapes and the caller's line") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  const Tensor c = Tensor::zeros({2, 3}, DType::f64);
  const auto same = [&](const Tensor& x) {
    return message_of([&] { expect_same("add", "a", a, "b", x, Where::current()); });
  };
  CHECK(contains(same(b), "add: a is (2, 3) f32 and b is (3, 2) f32"));
  CHECK(contains(same(c), "b is (2, 3) f64"));
  CHECK(contains(same(b), "op_test.cpp:"));
  CHECK(same(a) == "nothing was thrown");
  CHECK(contains(
      message_of([&] { expect_dtype("embedding", "ids", a, DType::i32, Where::current()); }),
      "embedding: ids is (2, 3) f32, expected i32"));
  CHECK(contains(
      message_of([&] { expect_dims("softmax", "x", a, 3, "(B, T, C)", Where::current()); }),
      "softmax: x is (2, 3) f32, expected (B, T, C)"));
}

TEST_CASE("costs count FLOPs once and bytes by the type's width") {
  constexpr OpCost cost = elementwise_cost("gelu", DType::bf16, 100, 8, 2, 1);
  CHECK(cost.flops == 800);
  CHECK(cost.bytes_read == 400);
  CHECK(cost.bytes_written == 200);
  CHECK(op_cost("sum", DType::f64, 7, 3, 1).bytes_read == 24);
}

TEST_CASE("rows for a thread: enough work each, at least one") {
  CHECK(rows_per_thread(1) == elements_per_thread);
  CHECK(rows_per_thread(0) == elements_per_thread);
  CHECK(rows_per_thread(10 * elements_per_thread) == 1);
}

namespace {

using Tensors = std::vector<Tensor>;

// The op of bf16 numbers against the op of the same numbers in f32. What is bf16 must be f32's
// result, rounded once: off by half a unit in its last place, 2^-8 of itself at most. What is f32
// agrees to 1e-5. `sums`: how far f32's own sums may differ, where they cancel.
template <class Op>
void check_rounded_once(const std::string& what, const Tensors& inputs, Op op, double sums = 2e-6) {
  CAPTURE(what);
  Tensors wide;
  for (const Tensor& x : inputs)
    wide.push_back(x.dtype() == DType::bf16 ? x.to(DType::f32) : x.clone());
  const Tensors expected = op(wide), found = op(inputs);
  REQUIRE(expected.size() == found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].shape() == expected[i].shape());
    const std::vector<double> e = expected[i].values(), f = found[i].values();
    const double part = found[i].dtype() == DType::bf16 ? 0x1p-8 : 1e-5;
    int wrong = 0;
    for (size_t j = 0; j < e.size(); ++j)
      wrong += !(std::abs(f[j] - e[j]) <= part * std::abs(e[j]) + sums);
    CHECK(wrong == 0);
  }
}
Tensor narrow_input(Shape shape, const char* name) {
  return random_tensor(std::move(shape), name, DType::bf16);
}
bool all_bf16(const Tensors& all) {
  return std::all_of(all.begin(), all.end(),
                     [](const Tensor& x) { return x.dtype() == DType::bf16; });
}

}  // namespace

TEST_CASE("bf16 is read, f32 computed, and a result rounded once: maps, norms, rope, dropout") {
  const Tensors two = {narrow_input({7, 37}, "x"), narrow_input({7, 37}, "y")};
  const auto map = [&](const std::string& what, auto f) {
    check_rounded_once(what, two, [&](const Tensors& x) { return Tensors{f(x[0], x[1])}; });
    CHECK(all_bf16({f(two[0], two[1])}));
  };
  map("add", [](auto& x, auto& y) { return add(x, y); });
  map("scale", [](auto& x, auto&) { return scale(x, 1.7); });
  map("multiply", [](auto& x, auto& y) { return multiply(x, y); });
  map("gelu", [](auto& x, auto&) { return gelu(x); });
  map("gelu_backward", [](auto& x, auto& y) { return gelu_backward(y, x); });
  map("silu", [](auto& x, auto&) { return silu(x); });
  map("silu_backward", [](auto& x, auto& y) { return silu_backward(y, x); });
  map("swiglu", [](auto& x, auto& y) { return swiglu(x, y); });
  map("dgate", [](auto& x, auto& y) { return swiglu_backward(y, x, y).dgate; });
  map("dup", [](auto& x, auto& y) { return swiglu_backward(y, x, y).dup; });
  map("softmax", [](auto& x, auto&) { return softmax(x); });
  map("softmax_backward", [](auto& x, auto& y) { return softmax_backward(y, x); });
  map("dropout", [](auto& x, auto&) {
    Tensor mask;
    dropout(x, 0.3, Random(1, "mask"), 5, mask);
    return dropout_backward(x, mask, 0.3);
  });
  check_rounded_once("rope", {narrow_input({2, 5, 3, 8}, "q")}, [](const Tensors& x) {
    return Tensors{rope(x[0]), rope_backward(x[0])};
  });
}

TEST_CASE("bf16 norms keep f32 statistics, and gradients of weights are summed in f32") {
  const Tensors in = {narrow_input({70, 37}, "x"), narrow_input({70, 37}, "dy"),
                      random_tensor({37}, "w", DType::f32), random_tensor({37}, "b", DType::f32)};
  check_rounded_once(
      "layernorm", in,
      [](const Tensors& x) {
        const LayernormOutput out = layernorm(x[0], x[2], x[3]);
        CHECK(out.mean.dtype() == DType::f32);
        CHECK(out.rstd.dtype() == DType::f32);
        Tensor dw = Tensor::zeros({37}), db = Tensor::zeros({37});
        layernorm_backward_weight(x[1], x[0], out.mean, out.rstd, dw, db);
        return Tensors{out.y,    out.mean,
                       out.rstd, dw,
                       db,       layernorm_backward_input(x[1], x[0], x[2], out.mean, out.rstd)};
      },
      2e-5);
  check_rounded_once(
      "rmsnorm", in,
      [](const Tensors& x) {
        const RmsnormOutput out = rmsnorm(x[0], x[2]);
        CHECK(out.rstd.dtype() == DType::f32);
        Tensor dw = Tensor::zeros({37});
        rmsnorm_backward_weight(x[1], x[0], out.rstd, dw);
        return Tensors{out.y, out.rstd, dw, rmsnorm_backward_input(x[1], x[0], x[2], out.rstd)};
      },
      2e-5);
  CHECK(all_bf16({layernorm(in[0], in[2], in[3]).y}));
}

TEST_CASE("bf16 embeddings, biases and matmuls: rows are copied, sums are f32") {
  const Tensor ids = Tensor::from<int32_t>({3, 0, 3, 5, 1, 2}, {6});
  const Tensors in = {narrow_input({8, 19}, "table"),     narrow_input({6, 19}, "dy"),
                      narrow_input({3, 19}, "positions"), narrow_input({19}, "bias"),
                      narrow_input({11, 19}, "w"),        narrow_input({6, 11}, "dz")};
  check_rounded_once("embedding", in, [&](const Tensors& x) {
    Tensor y = embedding(ids, x[0]), plain = y.clone();
    add_positions(y, x[2], 3);
    Tensor dtable = Tensor::zeros({8, 19}), dpositions = Tensor::zeros({3, 19});
    embedding_backward(x[1], ids, dtable);
    positions_backward(x[1], dpositions, 3);
    return Tensors{plain, y, dtable, dpositions};
  });
  check_rounded_once(
      "linear", in,
      [&](const Tensors& x) {
        Tensor dbias = Tensor::zeros({19}), dw = Tensor::zeros({11, 19}), dx = x[1].clone();
        bias_backward(x[1], dbias);
        linear_backward_weight(x[5], x[1], dw);
        linear_backward_input_into(dx, Into::accumulate, x[5], x[4]);
        return Tensors{add_bias(x[1], x[3]),
                       dbias,
                       linear(x[1], x[4]),
                       dw,
                       dx,
                       linear_backward_input(x[5], x[4])};
      },
      2e-5);
}

TEST_CASE("bf16 logits: the loss is f32, and of a gradient near zero bits are left") {
  const Tensor targets = Tensor::from<int32_t>({3, 0, 16}, {3});
  Tensor logits = narrow_input({3, 17}, "logits");
  logits.data<bfloat16>()[3] = bfloat16(16.0f);  // of the first target: nearly certain
  check_rounded_once(
      "cross_entropy", {logits},
      [&](const Tensors& x) {
        const CrossEntropy out = cross_entropy(x[0], targets, 0.25);
        CHECK(out.losses.dtype() == DType::f32);
        return Tensors{out.losses, out.log_sum_exp,
                       cross_entropy_backward(x[0], targets, out.log_sum_exp, 0.25)};
      },
      1e-7);
}

TEST_CASE(
    "bf16 attention: scores and softmax in f32, both ways, with grouped queries and dropout") {
  const Tensors in = {narrow_input({2, 9, 4, 6}, "q"), narrow_input({2, 9, 2, 6}, "k"),
                      narrow_input({2, 9, 2, 6}, "v"), narrow_input({2, 9, 4, 6}, "dout")};
  const auto all_of = [](const AttentionGradients& d) { return Tensors{d.dq, d.dk, d.dv}; };
  check_rounded_once("blockwise", in, [&](const Tensors& x) {
    const FlashAttention out = flash_attention(x[0], x[1], x[2]);
    CHECK(out.log_sum_exp.dtype() == DType::f32);
    return Tensors{out.o, out.log_sum_exp};
  });
  for (const double p : {0.0, 0.3}) {
    const AttentionDropout dropout{.p = p};
    const PlainAttention out = attention_plain(in[0], in[1], in[2], dropout);
    CHECK(all_bf16({out.o, out.probabilities}));
    check_rounded_once("plain", in, [&](const Tensors& x) {
      return Tensors{attention_plain(x[0], x[1], x[2], dropout).probabilities};
    });
    // What was rounded, P or o, is read again: its 2^-8 is scaled by numbers of up to 4 or so.
    Tensors wide;
    for (const Tensor& x : in) wide.push_back(x.to(DType::f32));
    const PlainAttention f32 = attention_plain(wide[0], wide[1], wide[2], dropout);
    CHECK(largest_difference(out.o, f32.o) <= 4 * 0x1p-8);
    const Tensors d = all_of(attention_plain_backward(in[3], in[0], in[1], in[2], out, p));
    const Tensors e = all_of(attention_plain_backward(wide[3], wide[0], wide[1], wide[2], f32, p));
    CHECK(all_bf16(d));
    for (size_t i = 0; i < 3; ++i) CHECK(largest_difference(d[i], e[i]) <= 8 * 0x1p-8);
    if (p > 0) continue;
    const FlashAttention saved = flash_attention(in[0], in[1], in[2]);
    const Tensors b = all_of(flash_attention_backward(in[3], in[0], in[1], in[2], saved));
    CHECK(all_bf16(b));
    for (size_t i = 0; i < 3; ++i) CHECK(largest_difference(b[i], e[i]) <= 8 * 0x1p-8);
  }
}

TEST_CASE(
    "bf16 on meta has the shapes and types of the CPU, and results in other types are refused") {
  const DeviceScope meta(Device::meta);
  const Tensor x = Tensor::empty({2, 4, 2, 6}, DType::bf16);
  const FlashAttention out = flash_attention(x, x, x);
  CHECK(out.o.dtype() == DType::bf16);
  CHECK(out.log_sum_exp.dtype() == DType::f32);
  CHECK(attention_plain(x, x, x).probabilities.dtype() == DType::bf16);
  CHECK(flash_attention_backward(x, x, x, x, out).dk.dtype() == DType::bf16);
  AttentionGradients narrow{x, x, x};
  CHECK(contains(
      message_of([&] { attention_block_backward(x, x, x, x, out, {.length = 4}, narrow); }),
      "dq is (2, 4, 2, 6) bf16 on meta, expected f32"));
}
