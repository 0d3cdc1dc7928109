#include "yotta/nn/reference.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

reference::Matrix in(const Tensor& x) {
  return row_major(x.data<double>(), x.dim(0), x.numel() / x.dim(0));
}
reference::MatrixOut out(Tensor& x) {
  return row_major(x.data<double>(), x.dim(0), x.numel() / x.dim(0));
}
Tensor made(Shape shape, double value = 0) {
  Tensor x = Tensor::empty(std::move(shape), DType::f64);
  x.fill(value);
  return x;
}

struct Linear {
  Tensor x = random_tensor({5, 3}, "x"), w = random_tensor({4, 3}, "w"),
         b = random_tensor({4}, "b"), dy = random_tensor({5, 4}, "dy");
  Tensor y() const {
    Tensor y = made({5, 4});
    reference::linear(in(x), in(w), b.span<double>(), out(y));
    return y;
  }
};

struct Rmsnorm {
  Tensor x = random_tensor({4, 5}, "x"), w = random_tensor({5}, "w"),
         dy = random_tensor({4, 5}, "dy");
  double eps = 0.1;
  RmsnormOutput y() const {
    RmsnormOutput y{made({4, 5}), made({4})};
    reference::rmsnorm(in(x), w.span<double>(), eps, out(y.y), y.rstd.span<double>());
    return y;
  }
};

struct Head {
  static constexpr int64_t T = 7, d = 3;
  Tensor q = random_tensor({T, d}, "q"), k = random_tensor({T, d}, "k"),
         v = random_tensor({T, d}, "v"), dout = random_tensor({T, d}, "dout");
  FlashAttention o(int64_t block = 2) const {
    FlashAttention made_of{made({T, d}), made({T})};
    reference::attention(in(q), in(k), in(v), block, out(made_of.o),
                         made_of.log_sum_exp.span<double>());
    return made_of;
  }
  AttentionGradients gradients(double before = 0) const {
    const FlashAttention saved = o();
    AttentionGradients g{made({T, d}, before), made({T, d}, before), made({T, d}, before)};
    reference::attention_backward(in(dout), in(q), in(k), in(v), in(saved.o),
                                  saved.log_sum_exp.span<double>(), out(g.dq), out(g.dk),
                                  out(g.dv));
    return g;
  }
};

}  // namespace

TEST_CASE("linear: difference quotients of the loss, and the ops of linear_ops.hpp") {
  Linear at;
  Tensor dx = made({5, 3}, 9), dw = made({4, 3}), db = made({4});
  reference::linear_backward_input(in(at.dy), in(at.w), out(dx));
  reference::linear_backward_weight(in(at.dy), in(at.x), out(dw), db.span<double>());
  const auto loss = [&] { return dot(at.y(), at.dy); };
  CHECK(gradient_mismatch(at.x, dx, loss) == "");
  CHECK(gradient_mismatch(at.w, dw, loss) == "");
  CHECK(gradient_mismatch(at.b, db, loss) == "");

  CHECK(largest_difference(at.y(), linear(at.x, at.w, at.b)) < 1e-13);
  CHECK(largest_difference(dx, linear_backward_input(at.dy, at.w)) < 1e-13);
  Tensor op_dw = made({4, 3}), op_db = made({4});
  linear_backward_weight(at.dy, at.x, op_dw);
  bias_backward(at.dy, op_db);
  CHECK(largest_difference(dw, op_dw) < 1e-13);
  CHECK(largest_difference(db, op_db) < 1e-13);
}

TEST_CASE("rmsnorm: difference quotients of the loss, and the ops of norm.hpp") {
  Rmsnorm at;
  const RmsnormOutput y = at.y();
  Tensor dx = made({4, 5}, 9), dw = made({5});
  reference::rmsnorm_backward(in(at.dy), in(at.x), at.w.span<double>(), y.rstd.span<double>(),
                              out(dx), dw.span<double>());
  const auto loss = [&] { return dot(at.y().y, at.dy); };
  CHECK(gradient_mismatch(at.x, dx, loss) == "");
  CHECK(gradient_mismatch(at.w, dw, loss) == "");

  const RmsnormOutput op = rmsnorm(at.x, at.w, at.eps);
  CHECK(largest_difference(y.y, op.y) < 1e-13);
  CHECK(largest_difference(y.rstd, op.rstd) < 1e-13);
  CHECK(largest_difference(dx, rmsnorm_backward_input(at.dy, at.x, at.w, op.rstd)) < 1e-13);
  Tensor op_dw = made({5});
  rmsnorm_backward_weight(at.dy, at.x, op.rstd, op_dw);
  CHECK(largest_difference(dw, op_dw) < 1e-13);
}

TEST_CASE("cross-entropy: difference quotients of the loss, and the ops of cross_entropy.hpp") {
  const std::vector<int64_t> next = {5, 0, 3, 3};
  const double scale = 0.25;
  for (const double shift : {0.0, 900.0, -900.0}) {  // e^900 is infinite
    Tensor z = random_tensor({4, 6}, "z"), dz = made({4, 6}, 9);
    for (double& number : z.span<double>()) number += shift;
    const auto loss = [&] { return reference::cross_entropy(in(z), next, scale, out(dz)); };
    const Tensor gradient = (loss(), dz.clone());
    CHECK(gradient_mismatch(z, gradient, loss) == "");

    Tensor targets = Tensor::empty({4}, DType::i32);
    std::copy(next.begin(), next.end(), targets.data<int32_t>());
    const CrossEntropy op = cross_entropy(z, targets, scale);
    CHECK(loss() == doctest::Approx(op.loss).epsilon(1e-12));
    CHECK(largest_difference(gradient, cross_entropy_backward(z, targets, op.log_sum_exp, scale)) <
          1e-12);
  }
}

TEST_CASE("attention: any block of keys gives what flash_attention gives") {
  Head at;
  const auto one_head = [](const Tensor& x) { return x.reshape({1, Head::T, 1, Head::d}); };
  for (const double size : {1.0, 300.0}) {  // e^300^2 is infinite
    for (double& number : at.k.span<double>()) number *= size;
    const FlashAttention op = flash_attention(one_head(at.q), one_head(at.k), one_head(at.v));
    for (int64_t block = 1; block <= Head::T + 1; ++block) {
      const FlashAttention mine = at.o(block);
      CHECK(largest_difference(mine.o, op.o.reshape({Head::T, Head::d})) < 1e-12);
      CHECK(largest_difference(mine.log_sum_exp, op.log_sum_exp.reshape({Head::T})) < 1e-12);
    }
  }
}

TEST_CASE("attention: difference quotients of the loss, and flash_attention_backward") {
  Head at;
  const AttentionGradients g = at.gradients();
  const auto loss = [&] { return dot(at.o().o, at.dout); };
  CHECK(gradient_mismatch(at.q, g.dq, loss) == "");
  CHECK(gradient_mismatch(at.k, g.dk, loss) == "");
  CHECK(gradient_mismatch(at.v, g.dv, loss) == "");

  const auto one_head = [](const Tensor& x) { return x.reshape({1, Head::T, 1, Head::d}); };
  const auto back = [](const Tensor& x) { return x.reshape({Head::T, Head::d}); };
  const Tensor q = one_head(at.q), k = one_head(at.k), v = one_head(at.v);
  const AttentionGradients op =
      flash_attention_backward(one_head(at.dout), q, k, v, flash_attention(q, k, v));
  CHECK(largest_difference(g.dq, back(op.dq)) < 1e-12);
  CHECK(largest_difference(g.dk, back(op.dk)) < 1e-12);
  CHECK(largest_difference(g.dv, back(op.dv)) < 1e-12);
}

TEST_CASE("dx is overwritten; gradients of weights, of keys and of values are added to") {
  const Linear at;
  Tensor once = made({4, 3}), db = made({4}), twice = made({4, 3}), db_twice = made({4});
  reference::linear_backward_weight(in(at.dy), in(at.x), out(once), db.span<double>());
  for (int i = 0; i < 2; ++i)
    reference::linear_backward_weight(in(at.dy), in(at.x), out(twice), db_twice.span<double>());
  CHECK(largest_difference(twice, add(once, once)) < 1e-13);
  CHECK(largest_difference(db_twice, add(db, db)) < 1e-13);

  const Rmsnorm norm;
  const RmsnormOutput y = norm.y();
  Tensor dx = made({4, 5}), again = made({4, 5}), dw = made({5}), dw_twice = made({5});
  const auto backward = [&](Tensor& to, Tensor& weights) {
    reference::rmsnorm_backward(in(norm.dy), in(norm.x), norm.w.span<double>(),
                                y.rstd.span<double>(), out(to), weights.span<double>());
  };
  backward(dx, dw);
  backward(again, dw_twice);
  backward(again, dw_twice);
  CHECK(same_bits(dx, again));
  CHECK(largest_difference(dw_twice, add(dw, dw)) < 1e-13);

  const Head head;
  const AttentionGradients zero = head.gradients(), one = head.gradients(1);
  const Tensor ones = made({Head::T, Head::d}, 1);
  CHECK(largest_difference(one.dq, add(zero.dq, ones)) < 1e-13);
  CHECK(largest_difference(one.dk, add(zero.dk, ones)) < 1e-13);
  CHECK(largest_difference(one.dv, add(zero.dv, ones)) < 1e-13);
}

TEST_CASE("a linear layer's step has the FLOPs that the ledger counts") {
  const Linear at;
  const double before = context().ledger.total_flops();
  linear(at.x, at.w);
  linear_backward_input(at.dy, at.w);
  Tensor dw = made({4, 3});
  linear_backward_weight(at.dy, at.x, dw);
  const double counted = context().ledger.total_flops() - before;
  CHECK(counted == static_cast<double>(reference::linear_step_flops(5, 3, 4)));
}
