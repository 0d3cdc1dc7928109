#include "yotta/nn/attention_blockwise.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/nn/cpu/attention_tiles.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
struct Inputs {
  Tensor q, k, v, dout;
};
Inputs inputs(int64_t B, int64_t T, int64_t H, int64_t Hkv, int64_t d, DType dtype = DType::f64) {
  return {random_tensor({B, T, H, d}, "q", dtype), random_tensor({B, T, Hkv, d}, "k", dtype),
          random_tensor({B, T, Hkv, d}, "v", dtype), random_tensor({B, T, H, d}, "dout", dtype)};
}
AttentionGradients blockwise_gradients(const Inputs& x) {
  return attention_blockwise_backward(x.dout, x.q, x.k, x.v, attention_blockwise(x.q, x.k, x.v));
}
// The largest difference of o, dq, dk and dv between blockwise and plain.
double from_plain(const Inputs& x) {
  const PlainAttention plain = attention_plain(x.q, x.k, x.v);
  const AttentionGradients expected = attention_plain_backward(x.dout, x.q, x.k, x.v, plain);
  const AttentionGradients d = blockwise_gradients(x);
  return std::max({largest_difference(attention_blockwise(x.q, x.k, x.v).o, plain.o),
                   largest_difference(d.dq, expected.dq), largest_difference(d.dk, expected.dk),
                   largest_difference(d.dv, expected.dv)});
}
}  // namespace

TEST_CASE("blockwise equals plain for lengths around the tiles, and for one head of one sequence") {
  const int64_t BQ = detail::attention_BQ, BK = detail::attention_BK;
  for (const int64_t T :
       {int64_t{1}, int64_t{2}, BQ - 1, BQ, BQ + 1, BK - 1, BK, BK + 1, 2 * BK + 70})
    CHECK_MESSAGE(from_plain(inputs(1, T, 1, 1, 8)) <= 1e-12, T);
}

TEST_CASE("blockwise equals plain with several sequences and heads, and with grouped queries") {
  for (const int64_t Hkv : {1, 2, 4})
    for (const int64_t d : {1, 16, 33}) CHECK(from_plain(inputs(2, 70, 4, Hkv, d)) <= 1e-12);
  CHECK(from_plain(inputs(2, 300, 4, 2, 16, DType::f32)) <= 3e-5);
}

TEST_CASE("what is kept is the log-sum-exp of the scaled scores") {
  const Inputs x = inputs(1, 3, 2, 1, 4);
  const BlockwiseAttention out = attention_blockwise(x.q, x.k, x.v);
  double sum = 0;
  for (int64_t j = 0; j < 3; ++j) {
    double score = 0;
    for (int64_t c = 0; c < 4; ++c) score += x.q.item({0, 2, 1, c}) * x.k.item({0, j, 0, c}) / 2;
    sum += std::exp(score);
  }
  CHECK(out.log_sum_exp.item({0, 1, 2}) == doctest::Approx(std::log(sum)).epsilon(1e-13));
}

TEST_CASE("large scores do not overflow, whichever block they are in") {
  const Inputs x = inputs(1, 600, 1, 1, 8);  // e^709 is the end of f64
  for (const int64_t at : {0, 100, 300, 550}) {
    Inputs y = x;
    y.k = x.k.clone();
    y.k.reshape({600, 8}).rows(at, at + 1).fill(3000);
    CHECK(from_plain(y) <= 1e-9);
  }
}

TEST_CASE("gradients of blockwise attention") {
  Inputs x = inputs(1, 7, 4, 2, 3);
  const AttentionGradients d = blockwise_gradients(x);
  const auto loss = [&] { return dot(attention_blockwise(x.q, x.k, x.v).o, x.dout); };
  CHECK(gradient_mismatch(x.q, d.dq, loss) == "");
  CHECK(gradient_mismatch(x.k, d.dk, loss) == "");
  CHECK(gradient_mismatch(x.v, d.dv, loss) == "");
}

TEST_CASE("gradients across a tile's edge") {
  Inputs x = inputs(1, detail::attention_BK + 5, 1, 1, 2);
  const Tensor dk = blockwise_gradients(x).dk;
  Tensor part = x.k.reshape({-1, 2}).rows(detail::attention_BK - 2, detail::attention_BK + 5);
  CHECK(gradient_mismatch(
            part, dk.reshape({-1, 2}).rows(detail::attention_BK - 2, detail::attention_BK + 5),
            [&] { return dot(attention_blockwise(x.q, x.k, x.v).o, x.dout); }) == "");
}

TEST_CASE(
    "a block is what its queries see of its keys, wherever they stand; nothing is 0 and -inf") {
  const Inputs x = inputs(2, 150, 2, 1, 4);
  for (const int64_t n : {1, 63, 70})
    for (const int64_t ahead : {-200, -70, -65, -1, 0, 1, 62, 69, 300}) {
      const AttentionBlock block{80, 10, n, ahead};
      const BlockwiseAttention out = attention_block(x.q, x.k, x.v, block);
      REQUIRE(out.o.shape() == Shape{2, n, 2, 4});
      for (int64_t t = 0; t < n; ++t) {
        double sum = 0, expected = 0;
        for (int64_t j = 0; j < n && j <= t + ahead; ++j) {
          double score = 0;
          for (int64_t c = 0; c < 4; ++c)
            score += x.q.item({1, 80 + t, 1, c}) * x.k.item({1, 10 + j, 0, c}) / 2;
          sum += std::exp(score);
          expected += std::exp(score) * x.v.item({1, 10 + j, 0, 3});
        }
        const double o = out.o.item({1, t, 1, 3}), L = out.log_sum_exp.item({1, 1, t});
        CAPTURE(n);
        CAPTURE(ahead);
        CAPTURE(t);
        CHECK(std::abs(o - (sum == 0 ? 0 : expected / sum)) <= 1e-13);
        CHECK((sum == 0 ? L == -INFINITY : std::abs(L - std::log(sum)) <= 1e-12));
      }
    }
}

TEST_CASE("the blocks of any cut add up: their gradients to the whole's, their cost to T^2") {
  const int64_t T = 280;
  const Inputs x = inputs(2, T, 4, 2, 8);
  const BlockwiseAttention whole = attention_blockwise(x.q, x.k, x.v);
  const AttentionGradients expected = blockwise_gradients(x);
  for (const int64_t n : {35, 70, 140, 280}) {
    AttentionGradients d{Tensor::zeros(x.q.shape(), DType::f64),
                         Tensor::zeros(x.k.shape(), DType::f64),
                         Tensor::zeros(x.v.shape(), DType::f64)};
    int64_t twice = 0;
    for (int64_t i = 0; i < T; i += n)
      for (int64_t j = 0; j < T; j += n) {  // those above the diagonal add nothing
        attention_block_backward(x.dout, x.q, x.k, x.v, whole, {i, j, n, i - j}, d);
        twice += twice_seen({i, j, n, i - j});
      }
    CHECK(twice == T * T);
    CHECK(largest_difference(d.dq, expected.dq) <= 1e-12);
    CHECK(largest_difference(d.dk, expected.dk) <= 1e-12);
    CHECK(largest_difference(d.dv, expected.dv) <= 1e-12);
  }
  static_assert(twice_seen({0, 0, 10, 0}) == 100 && twice_seen({0, 0, 10, 10}) == 200);
  static_assert(twice_seen({0, 0, 10, -10}) == 0 && twice_seen({0, 0, 10, 3}) == 151);
}

TEST_CASE("a sequence of no tokens, and blocks that are not in the sequence") {
  const Inputs none = inputs(2, 0, 2, 1, 4), x = inputs(1, 8, 2, 1, 4);
  CHECK(from_plain(none) == 0);
  const auto refused = [&](const AttentionBlock& block) {
    return contains(message_of([&] { attention_block(x.q, x.k, x.v, block); }),
                    "are not in 8 columns");
  };
  CHECK(refused({4, 0, 5, 0}));
  CHECK(refused({0, 4, 5, 0}));
  CHECK(refused({-1, 0, 2, 0}));
  CHECK(refused({0, 0, -1, 0}));
}

TEST_CASE("blockwise attention: errors, cost, meta and threads") {
  const Inputs x = inputs(2, 70, 4, 2, 8, DType::f32);
  const std::string text = message_of([&] { attention_blockwise(x.q, x.k, x.q); });
  CHECK(contains(text, "attention_blockwise: k is (2, 70, 2, 8) f32 and v is (2, 70, 4, 8) f32"));
  CHECK(contains(text, "attention_blockwise_test.cpp:"));
  const BlockwiseAttention out = attention_blockwise(x.q, x.k, x.v);
  CHECK(contains(message_of([&] { attention_blockwise_backward(x.k, x.q, x.k, x.v, out); }),
                 "attention_blockwise_backward: dout is (2, 70, 2, 8) f32 and q is"));

  CHECK(same_for_all_threads([&] { return attention_blockwise(x.q, x.k, x.v).o; }));
  CHECK(same_for_all_threads([&] { return blockwise_gradients(x).dk; }));
  CHECK(same_for_all_threads([&] { return blockwise_gradients(x).dq; }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({2, 10, 4, 8}), n = Tensor::empty({2, 10, 2, 8});
  const BlockwiseAttention shapes = attention_blockwise(m, n, n);
  CHECK(shapes.log_sum_exp.shape() == Shape{2, 4, 10});
  CHECK(attention_blockwise_backward(m, m, n, n, shapes).dv.shape() == Shape{2, 10, 2, 8});
  const double forward = self.ledger.op("attention_blockwise").flops;
  CHECK(forward == 4 * 100 * 8 * 8 / 2);  // FlashAttention: 4 N^2 d heads, half if causal
  CHECK(self.ledger.op("attention_blockwise_backward").flops == 2.5 * forward);
  CHECK(self.ledger.op("attention_blockwise").bytes_read == 4 * (640 + 2 * 320));
  CHECK(self.ledger.op("attention_blockwise").bytes_written == 4 * (640 + 80));
}

TEST_CASE("blockwise never holds the scores") {
  RankContext self;
  const ContextScope scope(self);
  const Inputs x = inputs(1, 512, 2, 2, 8, DType::f32);
  self.ledger.reset();
  const int64_t before = self.ledger.memory()->live();
  const BlockwiseAttention out = attention_blockwise(x.q, x.k, x.v);
  CHECK(self.ledger.memory()->peak() - before == out.o.nbytes() + out.log_sum_exp.nbytes());
}
