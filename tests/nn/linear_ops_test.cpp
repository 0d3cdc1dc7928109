#include "yotta/nn/linear_ops.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// x w' as the formula has it, in f64.
Tensor product(const Tensor& x, const Tensor& w) {
  Tensor y = Tensor::zeros({x.dim(0), w.dim(0)}, DType::f64);
  for (int64_t m = 0; m < x.dim(0); ++m)
    for (int64_t n = 0; n < w.dim(0); ++n)
      for (int64_t k = 0; k < x.dim(1); ++k)
        y.data<double>()[m * w.dim(0) + n] += x.item({m, k}) * w.item({n, k});
  return y;
}
}  // namespace

TEST_CASE("linear is x times w transposed, with and without bias") {
  for (const int64_t M : {0, 1, 5, 33})
    for (const int64_t N : {1, 7, 40}) {
      const Tensor x = random_tensor({M, 19}, "x"), w = random_tensor({N, 19}, "w");
      const Tensor b = random_tensor({N}, "b");
      CHECK(largest_difference(linear(x, w), product(x, w)) <= 1e-13);
      CHECK(largest_difference(linear(x, w, b), add_bias(product(x, w), b)) <= 1e-13);
    }
}

TEST_CASE("gradients of linear") {
  Tensor x = random_tensor({4, 6}, "x"), w = random_tensor({5, 6}, "w"),
         b = random_tensor({5}, "b");
  const Tensor dy = random_tensor({4, 5}, "dy");
  const auto loss = [&] { return dot(linear(x, w, b), dy); };
  Tensor dw = Tensor::zeros({5, 6}, DType::f64), db = Tensor::zeros({5}, DType::f64);
  linear_backward_weight(dy, x, dw);
  bias_backward(dy, db);
  const Tensor dx = linear_backward_input(dy, w);
  CHECK(gradient_mismatch(x, dx, loss) == "");
  CHECK(gradient_mismatch(w, dw, loss) == "");
  CHECK(gradient_mismatch(b, db, loss) == "");
  linear_backward_weight(dy, x, dw);  // accumulates
  Tensor twice = dx.clone();
  linear_backward_input_into(twice, Into::accumulate, dy, w);
  CHECK(gradient_mismatch(w, dw, [&] { return 2 * loss(); }) == "");
  CHECK(gradient_mismatch(x, twice, [&] { return 2 * loss(); }) == "");
}

TEST_CASE("bf16 and f32 in any mixture are summed in f32 and rounded once") {
  const Tensor x = random_tensor({9, 300}, "x").to(DType::bf16);
  const Tensor w = random_tensor({7, 300}, "w").to(DType::bf16);
  const Tensor exact = product(x, w);
  const auto single = [](const Tensor& t) { return t.to(DType::f32); };
  CHECK(largest_difference(linear(single(x), single(w)), exact) <= 3e-6);
  CHECK(largest_difference(linear(single(x), w), exact) <= 3e-6);
  const Tensor narrow = linear(x, w);
  CHECK(narrow.dtype() == DType::bf16);
  CHECK(largest_difference(narrow, exact) <= 1.0 / 256);  // half a unit of 8 bits
  CHECK(largest_difference(linear(x, single(w)), exact) <= 1.0 / 256);

  const Tensor dy = random_tensor({9, 7}, "dy").to(DType::bf16);
  Tensor dw = Tensor::zeros({7, 300});
  linear_backward_weight(dy, x, dw);
  const auto flip = [](const Tensor& t) {
    Tensor out = Tensor::empty({t.dim(1), t.dim(0)}, DType::f64);
    for (int64_t i = 0; i < t.dim(0); ++i)
      for (int64_t j = 0; j < t.dim(1); ++j) out.data<double>()[j * t.dim(0) + i] = t.item({i, j});
    return out;
  };
  CHECK(largest_difference(dw, product(flip(dy), flip(x))) <= 3e-6);
  CHECK(linear_backward_input(dy, w).dtype() == DType::bf16);
  CHECK(largest_difference(linear_backward_input(dy, single(w)), product(dy, flip(w))) <=
        1.0 / 256);
}

TEST_CASE("linear: errors, cost, meta and threads") {
  const Tensor x = Tensor::zeros({4, 6}), w = Tensor::zeros({5, 7});
  CHECK(contains(message_of([&] { linear(x, w); }),
                 "linear: x (M, K) is (4, 6) f32 and w (N, K) is (5, 7) f32"));
  CHECK(contains(message_of([&] { linear(x, w); }), "linear_ops_test.cpp:"));
  CHECK(contains(message_of([&] { linear_backward_input(x, w); }), "dy (M, N) is (4, 6) f32"));
  CHECK(contains(message_of([&] {
                   linear(x.to(DType::f64), Tensor::zeros({5, 6}));
                 }),
                 "expected both f64, or f32 and bf16"));
  CHECK(contains(message_of([&] { linear(x, x, w); }), "linear: bias is (5, 7) f32, expected (4)"));
  Tensor dw = Tensor::zeros({6, 6});
  CHECK(contains(message_of([&] { linear_backward_weight(x, w, dw); }), "rows must agree"));

  const Tensor a = random_tensor({150, 130}, "a", DType::f32);
  const Tensor b = random_tensor({170, 130}, "b", DType::f32),
               c = random_tensor({170}, "c", DType::f32);
  CHECK(same_for_all_threads([&] { return linear(a, b, c); }));
  CHECK(same_for_all_threads([&] { return linear_backward_input(linear(a, b), b); }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({10, 8}), v = Tensor::empty({6, 8}), bias = Tensor::empty({6});
  const Tensor y = linear(m, v, bias);
  CHECK(y.describe() == "(10, 6) f32 on meta");
  CHECK(linear_backward_input(y, v).shape() == Shape{10, 8});
  Tensor g = Tensor::empty({6, 8});
  linear_backward_weight(y, m, g);
  for (const char* op : {"linear", "linear_backward_input", "linear_backward_weight"}) {
    CHECK(self.ledger.op(op).calls == 1);
    CHECK(self.ledger.op(op).flops == 2 * 10 * 6 * 8);
  }
  CHECK(self.ledger.op("linear").bytes_read == 4 * (80 + 48));
  CHECK(self.ledger.op("linear").bytes_written == 4 * 60);
  CHECK(self.ledger.op("add_bias").flops == 60);
}
