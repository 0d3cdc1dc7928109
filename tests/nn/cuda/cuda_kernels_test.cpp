// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/nn/cuda/cuda_kernels.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/device/cuda/strided_matmul.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/nn/rope.hpp"

using namespace yotta;
using namespace yotta_test;

// Every op on Device::cuda against itself on the CPU.

namespace {

using Tensors = std::vector<Tensor>;

// Numbers between -2 and 2.
Tensor cuda_input(Shape shape, const char* name, DType dtype) {
  Tensor x = Tensor::empty(std::move(shape), dtype);
  const Random random(7, name);
  visit(dtype, [&]<class T>(Type<T>) {
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<T>()[i] = static_cast<T>(4 * random.uniform(static_cast<uint64_t>(i)) - 2);
  });
  return x;
}

// op(inputs), once on the CPU and once on Device::cuda; what it returns must agree.
template <class Op>
void check_alike(const Tensors& inputs, Op op) {
  install_accelerator();
  install_kernels();
  Tensors there, copies;
  for (const Tensor& x : inputs) {
    copies.push_back(x.clone());
    there.push_back(x.to(Device::cuda));
  }
  const Tensors expected = op(copies), found = op(there);
  REQUIRE(expected.size() == found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].device() == Device::cuda);
    REQUIRE(found[i].shape() == expected[i].shape());
    // bf16: sums in another order may be rounded to the neighbour, 2^-7 away
    const double tolerance = expected[i].dtype() == DType::f64    ? 1e-12
                             : expected[i].dtype() == DType::bf16 ? 0x1p-7
                                                                  : 5e-5;
    const std::vector<double> a = expected[i].values(), b = found[i].values();
    double worst = 0;
    for (size_t j = 0; j < a.size(); ++j)
      if (const double gap = std::abs(a[j] - b[j]) / (1 + std::abs(a[j]));
          a[j] != b[j] && !(gap <= worst))
        worst = gap;
    CHECK(worst <= tolerance);
  }
}

template <class Real>
Tensor cuda_input(Shape shape, const char* name) {
  return cuda_input(std::move(shape), name, dtype_of<Real>);
}

}  // namespace

TEST_CASE_TEMPLATE("element-wise ops on cuda", Real, float, double, bfloat16) {
  for (const int64_t n : {0, 1, 300, 1000}) {
    const Tensors in = {cuda_input<Real>({n}, "a"), cuda_input<Real>({n}, "b"),
                        cuda_input<Real>({n}, "c")};
    check_alike(in, [](Tensors& x) {
      const SwigluGradients d = swiglu_backward(x[0], x[1], x[2]);
      add_into(x[2], x[1]);
      return Tensors{add(x[0], x[1]),
                     multiply(x[0], x[1]),
                     scale(x[0], 1.5),
                     gelu(x[0]),
                     gelu_backward(x[0], x[1]),
                     silu(x[0]),
                     silu_backward(x[0], x[1]),
                     swiglu(x[0], x[1]),
                     d.dgate,
                     d.dup,
                     x[2]};
    });
  }
}

TEST_CASE_TEMPLATE("norms and biases on cuda", Real, float, double, bfloat16) {
  for (const auto& [N, C] : {std::pair<int64_t, int64_t>{1, 1}, {5, 33}, {37, 70}, {0, 4}}) {
    const Tensors in = {cuda_input<Real>({N, C}, "x"), cuda_input<Real>({N, C}, "dy"),
                        cuda_input<Computed<Real>>({C}, "w"), cuda_input<Computed<Real>>({C}, "b")};
    check_alike(in, [](Tensors& x) {
      const LayernormOutput layer = layernorm(x[0], x[2], x[3]);
      const RmsnormOutput rms = rmsnorm(x[0], x[2]);
      Tensor dw = x[2].clone(), db = x[3].clone(), dr = x[2].clone(), bias = x[3].clone();
      layernorm_backward_weight(x[1], x[0], layer.mean, layer.rstd, dw, db);
      rmsnorm_backward_weight(x[1], x[0], rms.rstd, dr);
      bias_backward(x[1], bias);
      return Tensors{layer.y,
                     layer.mean,
                     layer.rstd,
                     rms.y,
                     rms.rstd,
                     dw,
                     db,
                     dr,
                     bias,
                     layernorm_backward_input(x[1], x[0], x[2], layer.mean, layer.rstd),
                     rmsnorm_backward_input(x[1], x[0], x[2], rms.rstd),
                     add_bias(x[0], as_type(x[3], x[0].dtype()))};
    });
  }
}

TEST_CASE("norms read bf16 weights as they are, to the bits of widened ones") {
  install_accelerator();
  install_kernels();
  for (const Device device : {Device::cpu, Device::cuda}) {
    const auto input = [&](Shape shape, const char* name) {
      return cuda_input(std::move(shape), name, DType::bf16).to(device);
    };
    const Tensor x = input({5, 33}, "x"), dy = input({5, 33}, "dy"), w = input({33}, "w");
    const Tensor b = input({33}, "b"), wide_w = w.to(DType::f32), wide_b = b.to(DType::f32);
    const LayernormOutput layer = layernorm(x, w, b);
    const RmsnormOutput rms = rmsnorm(x, w);
    const auto layernorm_back = [&](const Tensor& weight) {
      return layernorm_backward_input(dy, x, weight, layer.mean, layer.rstd).values();
    };
    const auto rmsnorm_back = [&](const Tensor& weight) {
      return rmsnorm_backward_input(dy, x, weight, rms.rstd).values();
    };
    CHECK(layer.y.values() == layernorm(x, wide_w, wide_b).y.values());
    CHECK(rms.y.values() == rmsnorm(x, wide_w).y.values());
    CHECK(layernorm_back(w) == layernorm_back(wide_w));
    CHECK(rmsnorm_back(w) == rmsnorm_back(wide_w));
  }
}

TEST_CASE_TEMPLATE("softmax and cross-entropy on cuda", Real, float, double, bfloat16) {
  const Tensors in = {cuda_input<Real>({6, 75}, "x"), cuda_input<Real>({6, 75}, "dy"),
                      Tensor::from<int32_t>({0, 74, 31, 32, 33, 5}, {6})};
  check_alike(in, [](Tensors& x) {
    const Tensor y = softmax(x[0]);
    const CrossEntropy loss = cross_entropy(x[0], x[2], 0.25);
    double sum = 0;  // in double, of losses that may differ in their last digit
    for (const double each : loss.losses.values()) sum += each;
    CHECK(loss.loss == doctest::Approx(0.25 * sum).epsilon(1e-12));
    const Tensor total = Tensor::full({1}, loss.loss, loss.losses.dtype()).to(x[0].device());
    return Tensors{y,           softmax_backward(x[1], y),
                   loss.losses, loss.log_sum_exp,
                   total,       cross_entropy_backward(x[0], x[2], loss.log_sum_exp, 0.25)};
  });
  const Tensor targets = Tensor::from<int32_t>({0, 75, 1, 1, 1, 1}, {6}).to(Device::cuda);
  CHECK(contains(message_of([&] { cross_entropy(in[0].to(Device::cuda), targets, 1); }),
                 "target 75 of token 1 is outside the vocabulary of 75"));
}

TEST_CASE_TEMPLATE("embeddings, positions and rope on cuda", Real, float, double, bfloat16) {
  const Tensors in = {cuda_input<Real>({9, 5}, "table"), cuda_input<Real>({6, 5}, "dy"),
                      Tensor::from<int32_t>({3, 8, 3, 0, 3, 8}, {6}),
                      cuda_input<Real>({1, 6, 2, 8}, "q")};
  for (const Positions& at : {Positions{1}, Positions{0, 3}})
    check_alike(in, [&](Tensors& x) {
      const DType sums = computed(x[0].dtype());
      Tensor y = embedding(x[2], x[0]), dtable = x[0].to(sums), dpositions = x[0].to(sums);
      add_positions(y, x[0], 2, at);
      embedding_backward(x[1], x[2], dtable);
      positions_backward(x[1], dpositions, 2, at);
      return Tensors{y, dtable, dpositions, rope(x[3], at), rope_backward(x[3], at)};
    });
  CHECK(contains(message_of([&] {
                   embedding(Tensor::from<int32_t>({9}, {1}).to(Device::cuda),
                             in[0].to(Device::cuda))
                       .values();
                 }),
                 "id 9 of token 0 is outside the vocabulary of 9"));
}

TEST_CASE_TEMPLATE("dropout on cuda draws the CPU's mask", Real, float, double, bfloat16) {
  const Tensors in = {cuda_input<Real>({6, 11}, "x")};
  check_alike(in, [](Tensors& x) {
    Tensor mask, rows;
    const Tensor y = dropout(x[0], 0.3, Random(5, "mask"), 1234567, mask);
    const auto first = [](int64_t row) { return 1000 * row + 3; };
    const Tensor z = dropout_rows(x[0], 3, 0.3, Random(5, "mask"), first, rows);
    return Tensors{y, z, mask, rows, dropout_backward(x[0], mask, 0.3)};
  });
}

TEST_CASE_TEMPLATE("attention on cuda: both kinds, shared keys, dropout, blocks", Real, float,
                   double, bfloat16) {
  const Tensors in = {cuda_input<Real>({2, 7, 4, 6}, "q"), cuda_input<Real>({2, 7, 2, 6}, "k"),
                      cuda_input<Real>({2, 7, 2, 6}, "v"), cuda_input<Real>({2, 7, 4, 6}, "dout")};
  check_alike(in, [](Tensors& x) {
    Tensors all;
    for (const double p : {0.0, 0.4}) {
      const PlainAttention out = attention_plain(
          x[0], x[1], x[2], {.p = p, .first_sequence = 3, .first_head = 4, .heads = 9});
      const AttentionGradients d = attention_plain_backward(x[3], x[0], x[1], x[2], out, p);
      all.insert(all.end(), {out.o, out.probabilities, d.dq, d.dk, d.dv});
    }
    const FlashAttention out = flash_attention(x[0], x[1], x[2]);
    const AttentionGradients d = flash_attention_backward(x[3], x[0], x[1], x[2], out);
    all.insert(all.end(), {out.o, out.log_sum_exp, d.dq, d.dk, d.dv});
    return all;
  });
  for (const AttentionBlock& block : {AttentionBlock{3, 1, 4, 2}, {2, 3, 4, -2}, {0, 0, 0, 0}})
    check_alike(in, [&](Tensors& x) {
      const FlashAttention part = attention_block(x[0], x[1], x[2], block);
      const FlashAttention whole = flash_attention(x[0], x[1], x[2]);
      const DType sums = computed(x[0].dtype());
      AttentionGradients d{x[0].to(sums), x[1].to(sums), x[2].to(sums)};
      attention_block_backward(x[3], x[0], x[1], x[2], whole, block, d);
      return Tensors{part.o, part.log_sum_exp, d.dq, d.dk, d.dv};
    });
}

TEST_CASE("linear layers on cuda, by the course's matmul") {
  install_course_matmul();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    check_alike({cuda_input({5, 18}, "x", dtype), cuda_input({7, 18}, "w", dtype),
                 cuda_input({7}, "b", dtype), cuda_input({5, 7}, "dy", dtype)},
                [&](Tensors& x) {
                  Tensor dw = x[1].to(dtype == DType::f64 ? DType::f64 : DType::f32);
                  Tensor dx = x[0].clone();
                  linear_backward_weight(x[3], x[0], dw);
                  linear_backward_input_into(dx, Into::accumulate, x[3], x[1]);
                  return Tensors{linear(x[0], x[1]), linear(x[0], x[1], x[2]), dw, dx,
                                 linear_backward_input(x[3], x[1])};
                });
  check_alike({cuda_input({5, 18}, "x", DType::bf16), cuda_input({7, 18}, "w", DType::f32)},
              [](Tensors& x) { return Tensors{linear_as(DType::f32, x[0], x[1])}; });
  check_alike({cuda_input({5, 18}, "x", DType::f32), cuda_input({7, 18}, "w", DType::f32),
               cuda_input({7}, "b", DType::f32)},
              [](Tensors& x) {  // each launched before the memory that it reads is gone
                KernelBatch together;
                Tensors y;
                for (const double factor : {1.0, 2.0, 3.0})
                  y.push_back(linear(scale(x[0], factor), x[1], scale(x[2], factor)));
                together.run(Where::current());
                return y;
              });
  device_matmul() = nullptr;
  const Tensor x = Tensor::zeros({2, 2}).to(Device::cuda);
  CHECK(contains(message_of([&] { linear(x, x); }),
                 "linear: this build has no matmul for (2, 2) f32 on cuda"));
  install_course_matmul();
  CHECK(contains(message_of([&] {
                   linear(x, Tensor::zeros({2, 2}));
                 }),
                 "(2, 2) f32 is to be multiplied on cuda; copy it"));
}

TEST_CASE("narrow and cat on cuda; weights begin as on the CPU") {
  check_alike({cuda_input<float>({3, 4, 2}, "x")}, [](Tensors& x) {
    const Tensors parts = {narrow(x[0], 1, 0, 1), narrow(x[0], 1, 1, 3)};
    const DeviceScope scope(x[0].device());
    const ParameterPtr weight = make_parameter("w", {5, 6}, true, normal(0.5), 3, DType::f32);
    return Tensors{parts[0], parts[1], cat(parts, 1), weight->value};
  });
  const Tensors apart = {Tensor::zeros({2, 2}), Tensor::zeros({2, 2}).to(Device::cuda)};
  CHECK(contains(message_of([&] { cat(apart, 1); }), "are on two devices"));
}

TEST_CASE("AdamW and the gradient's norm on cuda") {
  check_alike({cuda_input<float>({130, 257}, "w"), cuda_input<float>({130, 257}, "g")},
              [](Tensors& x) {
                auto weight = std::make_shared<Parameter>();
                weight->value = x[0];
                weight->grad = x[1];
                AdamW adamw({weight});
                for (int step = 0; step < 3; ++step) adamw.step(0.01, 0.5);
                const double norm = gradient_norm({weight, weight});
                CHECK(std::abs(norm - std::sqrt(2 * sum_of_squares(x[1]))) <= 1e-9 * norm);
                return Tensors{weight->value, adamw.slots()[0].state[0], adamw.slots()[0].state[1],
                               Tensor::full({1}, norm).to(x[0].device())};
              });
}

TEST_CASE("bf16 weights on cuda: rounded as on the CPU, stepped in f32") {
  check_alike({cuda_input({70}, "w", DType::bf16), cuda_input({70}, "g", DType::f32)},
              [](Tensors& x) {
                auto weight = std::make_shared<Parameter>();
                weight->value = x[0];
                weight->grad = x[1];
                AdamW adamw({weight});
                adamw.step(0.01);
                return Tensors{weight->value, adamw.slots()[0].master, weight->wide()};
              });
}

TEST_CASE("tensors on two devices do not meet in an op") {
  install_accelerator();
  install_kernels();
  const Tensor here = Tensor::zeros({2}), there = here.to(Device::cuda);
  CHECK(contains(message_of([&] { add(there, here); }),
                 "(2) f32 was read on cuda; copy it with .to(Device::cuda)"));
  CHECK(contains(message_of([&] { add(here, there); }), "(2) f32 on cuda was read on cpu"));
}
