#include "yotta/nn/flash_attention.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "nn/attention_inputs.hpp"
#include "nn/gradient_check.hpp"
#include "yotta/core/cpu/block_cache.hpp"
#include "yotta/nn/narrow.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
AttentionGradients flash_gradients(const Inputs& x) {
  return flash_attention_backward(x.dout, x.q, x.k, x.v, flash_attention(x.q, x.k, x.v));
}
// The largest difference of o, dq, dk and dv between flash and plain.
double from_plain(const Inputs& x) {
  const PlainAttention plain = attention_plain(x.q, x.k, x.v);
  const AttentionGradients expected = attention_plain_backward(x.dout, x.q, x.k, x.v, plain);
  const AttentionGradients d = flash_gradients(x);
  return std::max({largest_difference(flash_attention(x.q, x.k, x.v).o, plain.o),
                   largest_difference(d.dq, expected.dq), largest_difference(d.dk, expected.dk),
                   largest_difference(d.dv, expected.dv)});
}
}  // namespace

TEST_CASE(
    "flash attention equals plain for lengths around the tiles, and for one head of one sequence") {
  const int64_t BQ = flash_BQ, BK = flash_BK;
  for (const int64_t T :
       {int64_t{1}, int64_t{2}, BQ - 1, BQ, BQ + 1, BK - 1, BK, BK + 1, 2 * BK + 70})
    CHECK_MESSAGE(from_plain(inputs(1, T, 1, 1, 8)) <= 1e-12, T);
}

TEST_CASE(
    "flash attention equals plain with several sequences and heads, and with grouped queries") {
  for (const int64_t Hkv : {1, 2, 4})
    for (const int64_t d : {1, 16, 33}) CHECK(from_plain(inputs(2, 70, 4, Hkv, d)) <= 1e-12);
  CHECK(from_plain(inputs(2, 300, 4, 2, 16, DType::f32)) <= 3e-5);
}

TEST_CASE("what is kept is the log-sum-exp of the scaled scores") {
  const Inputs x = inputs(1, 3, 2, 1, 4);
  const FlashAttention out = flash_attention(x.q, x.k, x.v);
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

TEST_CASE("gradients of flash attention") {
  Inputs x = inputs(1, 7, 4, 2, 3);
  const AttentionGradients d = flash_gradients(x);
  const auto loss = [&] { return dot(flash_attention(x.q, x.k, x.v).o, x.dout); };
  CHECK(gradient_mismatch(x.q, d.dq, loss) == "");
  CHECK(gradient_mismatch(x.k, d.dk, loss) == "");
  CHECK(gradient_mismatch(x.v, d.dv, loss) == "");
}

TEST_CASE("gradients across a tile's edge") {
  Inputs x = inputs(1, flash_BK + 5, 1, 1, 2);
  const Tensor dk = flash_gradients(x).dk;
  Tensor part = x.k.reshape({-1, 2}).rows(flash_BK - 2, flash_BK + 5);
  CHECK(gradient_mismatch(part, dk.reshape({-1, 2}).rows(flash_BK - 2, flash_BK + 5),
                          [&] { return dot(flash_attention(x.q, x.k, x.v).o, x.dout); }) == "");
}

TEST_CASE(
    "a block is what its queries see of its keys, wherever they stand; nothing is 0 and -inf") {
  const Inputs x = inputs(2, 150, 2, 1, 4);
  for (const int64_t n : {1, 63, 70})
    for (const int64_t ahead : {-200, -70, -65, -1, 0, 1, 62, 69, 300}) {
      const AttentionBlock block{80, 10, n, ahead};
      const FlashAttention out = attention_block(x.q, x.k, x.v, block);
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
  const FlashAttention whole = flash_attention(x.q, x.k, x.v);
  const AttentionGradients expected = flash_gradients(x);
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

TEST_CASE("merging: weights, order, parts that saw nothing, and no NaN from -inf - -inf") {
  const double none = -INFINITY;
  const auto both_none = merge_weights(none, none);
  CHECK(both_none.first == 0);
  CHECK(both_none.second == 0);
  CHECK(both_none.log_sum_exp == none);
  CHECK(merge_weights(none, 3.0).second == 1);
  CHECK(merge_weights(3.0, none).log_sum_exp == 3);
  const auto even = merge_weights(2000.0, 2000.0);  // e^2000 is no number
  CHECK(even.first == 0.5);
  CHECK(even.log_sum_exp == doctest::Approx(2000 + std::log(2)).epsilon(1e-15));
  const auto one_sided = merge_weights(-2000.0f, 2000.0f);
  CHECK(one_sided.first == 0);
  CHECK(one_sided.log_sum_exp == 2000);
  CHECK(std::isnan(merge_weights(std::nan(""), 1.0).log_sum_exp));
  CHECK(std::isnan(merge_weights(1.0, std::nan("")).log_sum_exp));

  // 60 tokens of 4 blocks of 15 keys: the parts of the last queries, merged in any order
  const int64_t B = 2, H = 4, d = 6;
  const Inputs x = inputs(B, 60, H, 2, d);
  const FlashAttention whole = flash_attention(x.q, x.k, x.v);
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}}) {
    FlashAttention sum{Tensor::zeros({B, 15, H, d}, DType::f64),
                       Tensor::full({B, H, 15}, none, DType::f64)};
    for (const int64_t j : parts)
      merge(sum, attention_block(x.q, x.k, x.v, {45, 15 * j, 15, 45 - 15 * j}));
    CHECK(largest_difference(sum.o, narrow(whole.o, 1, 45, 15)) <= 1e-13);
    CHECK(largest_difference(sum.log_sum_exp, narrow(whole.log_sum_exp, 2, 45, 15)) <= 1e-13);
  }
  FlashAttention a = attention_block(x.q, x.k, x.v, {0, 0, 15, 0});
  CHECK(contains(message_of([&] {
                   merge(a, attention_block(x.q, x.k, x.v, {0, 0, 10, 0}));
                 }),
                 "they must agree"));
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

TEST_CASE("flash attention: errors, cost, meta and threads") {
  const Inputs x = inputs(2, 70, 4, 2, 8, DType::f32);
  const std::string text = message_of([&] { flash_attention(x.q, x.k, x.q); });
  CHECK(contains(text, "flash_attention: k is (2, 70, 2, 8) f32 and v is (2, 70, 4, 8) f32"));
  CHECK(contains(text, "flash_attention_test.cpp:"));
  const FlashAttention out = flash_attention(x.q, x.k, x.v);
  CHECK(contains(message_of([&] { flash_attention_backward(x.k, x.q, x.k, x.v, out); }),
                 "flash_attention_backward: dout is (2, 70, 2, 8) f32 and q is"));

  CHECK(same_for_all_threads([&] { return flash_attention(x.q, x.k, x.v).o; }));
  CHECK(same_for_all_threads([&] { return flash_gradients(x).dk; }));
  CHECK(same_for_all_threads([&] { return flash_gradients(x).dq; }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({2, 10, 4, 8}), n = Tensor::empty({2, 10, 2, 8});
  const FlashAttention shapes = flash_attention(m, n, n);
  CHECK(shapes.log_sum_exp.shape() == Shape{2, 4, 10});
  CHECK(flash_attention_backward(m, m, n, n, shapes).dv.shape() == Shape{2, 10, 2, 8});
  const double forward = self.ledger.op("flash_attention").flops;
  CHECK(forward == 4 * 100 * 8 * 8 / 2);  // FlashAttention: 4 N^2 d heads, half if causal
  CHECK(self.ledger.op("flash_attention_backward").flops == 2.5 * forward);
  CHECK(self.ledger.op("flash_attention").bytes_read == 4 * (640 + 2 * 320));
  CHECK(self.ledger.op("flash_attention").bytes_written == 4 * (640 + 80));
}

TEST_CASE("online softmax: a row taken in two parts has the sums of the whole") {
  const std::vector<double> scores = {1, 900, -3, 2, 1000, 4};
  const std::vector<double> v = {1, 2, 3, 4, 5, 6};
  for (const int64_t cut : {1, 3, 5}) {
    OnlineSums<double> sums;
    double o = 0;
    for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, {cut, int64_t{6}}}) {
      std::vector<double> part(scores.begin() + begin, scores.begin() + end);
      online_softmax_row(part.data(), end - begin, 0.01, sums, &o, 1);
      for (int64_t i = begin; i < end; ++i)
        o += part[static_cast<size_t>(i - begin)] * v[static_cast<size_t>(i)];
    }
    double sum = 0, expected = 0;
    for (size_t i = 0; i < 6; ++i) {
      sum += std::exp(scores[i] / 100);
      expected += std::exp(scores[i] / 100) * v[i];
    }
    CHECK(o / sums.l == doctest::Approx(expected / sum).epsilon(1e-13));
    CHECK(sums.m + std::log(sums.l) == doctest::Approx(std::log(sum)).epsilon(1e-13));
  }
}

namespace {
// Softmax of changed scores over the keys that a mask shows, and its gradients, number by number.
struct Dense {
  Tensor o, dq, dk, dv;  // (T, d)
};
template <class Mask, class ScoreMod>
Dense dense(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dout, const Mask& mask,
            const ScoreMod& mod) {
  const int64_t T = q.dim(0), d = q.dim(1);
  Dense out{zeros_like(q, Where::current()), zeros_like(q, Where::current()),
            zeros_like(q, Where::current()), zeros_like(q, Where::current())};
  const double factor = 1 / std::sqrt(static_cast<double>(d));
  const auto at = [d](auto& x, int64_t i) { return x.template data<double>() + i * d; };
  const auto product = [d](const double* a, const double* b) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += a[c] * b[c];
    return sum;
  };
  for (int64_t t = 0; t < T; ++t) {
    std::vector<double> raw(static_cast<size_t>(T)), p(raw), dp(raw);
    double sum = 0, along = 0;
    for (int64_t j = 0; j < T; ++j) {
      if (!mask(t, j)) continue;
      const auto i = static_cast<size_t>(j);
      raw[i] = factor * product(at(q, t), at(k, j));
      sum += p[i] = std::exp(mod(raw[i], t, j));
      dp[i] = product(at(dout, t), at(v, j));
    }
    for (size_t j = 0; j < p.size() && sum > 0; ++j) along += (p[j] /= sum) * dp[j];
    for (int64_t j = 0; j < T; ++j) {
      const auto i = static_cast<size_t>(j);
      const double ds = factor * mod.backward(p[i] * (dp[i] - along), raw[i], t, j);
      for (int64_t c = 0; c < d; ++c) {
        at(out.o, t)[c] += p[i] * at(v, j)[c];
        at(out.dq, t)[c] += ds * at(k, j)[c];
        at(out.dk, j)[c] += ds * at(q, t)[c];
        at(out.dv, j)[c] += p[i] * at(dout, t)[c];
      }
    }
  }
  return out;
}

// The largest difference of o, dq, dk and dv between the tile loops and `dense`, for one head.
template <class Mask, class ScoreMod>
double from_dense(int64_t T, int64_t d, const Mask& mask, const ScoreMod& mod) {
  const Tensor q = random_tensor({T, d}, "q"), k = random_tensor({T, d}, "k"),
               v = random_tensor({T, d}, "v"), dout = random_tensor({T, d}, "dout");
  const Dense expected = dense(q, k, v, dout, mask, mod);
  Dense got{zeros_like(q, Where::current()), zeros_like(q, Where::current()),
            zeros_like(q, Where::current()), zeros_like(q, Where::current())};
  Tensor L = Tensor::empty({T}, DType::f64);
  const auto in = [&](const Tensor& x) { return row_major<const double>(x.data<double>(), T, d); };
  const auto out = [&](Tensor& x) { return row_major(x.data<double>(), T, d); };
  flash_forward(FlashHead<double>{in(q), in(k), in(v), out(got.o), L.data<double>()}, 0, T, mask,
                mod);
  flash_backward(FlashBackwardHead<double>{in(q), in(k), in(v), in(got.o), in(dout),
                                           L.data<double>(), out(got.dq), out(got.dk), out(got.dv)},
                 mask, mod);
  return std::max({largest_difference(got.o, expected.o), largest_difference(got.dq, expected.dq),
                   largest_difference(got.dk, expected.dk),
                   largest_difference(got.dv, expected.dv)});
}

// The last `width` keys before a query, itself included; runs begin where the first query's window
// does.
struct Window {
  int64_t keys, width;
  int64_t queries() const { return flash_BQ; }
  bool operator()(int64_t t, int64_t j) const { return j <= t && t - j < width; }
  template <class Visit>
  void runs(int64_t begin, int64_t end, Visit&& visit) const {
    const int64_t last = std::min(end, keys);
    for (int64_t j = std::max<int64_t>(0, begin - width + 1), n = 0; j < last; j += n) {
      n = std::min(last, (j / flash_BK + 1) * flash_BK) - j;
      visit(j, n, false);
    }
  }
};
// tanh(s) * 2, and a slope by distance: ALiBi and a soft cap in one.
struct CappedSlope {
  template <class Real>
  Real operator()(Real s, int64_t t, int64_t j) const {
    return 2 * std::tanh(s) - static_cast<Real>(t - j) / 50;
  }
  template <class Real>
  Real backward(Real ds, Real s, int64_t, int64_t) const {
    return ds * 2 * (1 - std::tanh(s) * std::tanh(s));
  }
};
}  // namespace

TEST_CASE("the tile loops take any mask and change of scores") {
  const int64_t T = flash_BK + 13;
  CHECK(from_dense(T, 32, CausalMask{T}, SameScore{}) <= 1e-13);
  CHECK(from_dense(T, 24, CausalMask{T, T}, SameScore{}) <= 1e-13);  // every key is seen
  CHECK(from_dense(T, 16, CausalMask{T, -20}, SameScore{}) <= 1e-13);
  CHECK(from_dense(T, 16, Window{T, 37}, SameScore{}) <= 1e-13);
  CHECK(from_dense(T, 16, CausalMask{T}, CappedSlope{}) <= 1e-13);
  CHECK(from_dense(T, 16, Window{T, 100}, CappedSlope{}) <= 1e-13);
}

TEST_CASE("flash equals plain for d from 32 to 128 in every type, and for scores of 10,000") {
  for (const int64_t d : {32, 80, 128}) {
    CHECK(from_plain(inputs(1, flash_BK + 9, 2, 1, d)) <= 1e-12);
    CHECK(from_plain(inputs(1, flash_BK + 9, 2, 1, d, DType::f32)) <= 1e-4);
    CHECK(from_plain(inputs(1, flash_BK + 9, 2, 1, d, DType::bf16)) <= 0.07);
  }
  Inputs large = inputs(1, 150, 1, 1, 32);
  for (const double size : {-1e4, 1e4}) {
    large.q.fill(1);
    large.k.reshape({150, 32}).rows(70, 75).fill(size / std::sqrt(32.0));
    CHECK(from_plain(large) <= 1e-10);
  }
}

TEST_CASE("NaN in one query reaches its own result, and no other's") {
  Inputs x = inputs(1, 80, 1, 1, 4);
  const Tensor before = flash_attention(x.q, x.k, x.v).o.reshape({80, 4});
  x.q.reshape({80, 4}).rows(70, 71).fill(std::nan(""));
  const Tensor after = flash_attention(x.q, x.k, x.v).o.reshape({80, 4});
  for (const double each : after.rows(70, 71).values()) CHECK(std::isnan(each));
  CHECK(same_bits(after.rows(0, 70), before.rows(0, 70)));
  CHECK(same_bits(after.rows(71, 80), before.rows(71, 80)));
}

TEST_CASE("flash attention never holds the scores") {
  RankContext self;
  const ContextScope scope(self);
  const Inputs x = inputs(1, 512, 2, 2, 8, DType::f32);
  self.ledger.reset();
  const int64_t before = self.ledger.memory()->live();
  const FlashAttention out = flash_attention(x.q, x.k, x.v);
  CHECK(self.ledger.memory()->peak() - before == out.o.nbytes() + out.log_sum_exp.nbytes());
}

#if defined(__GLIBC__)
TEST_CASE("flash attention backward holds its results, and what grows as T does beside them") {
  // What the call takes and, but for its results, gives to the caches of blocks, which keep it.
  const auto bytes_taken = [](int64_t T) {
    RankContext self;
    self.threads = 1;
    const ContextScope scope(self);
    const Inputs x = inputs(1, T, 2, 1, 8, DType::f32);
    const FlashAttention out = flash_attention(x.q, x.k, x.v);
    for (BlockCache* each : {&BlockCache::instance(), &BlockCache::scratch()}) each->release();
    self.ledger.reset();
    const int64_t before = self.ledger.memory()->live();
    const auto allocated = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
    const size_t start = allocated();
    const AttentionGradients d = flash_attention_backward(x.dout, x.q, x.k, x.v, out);
    CHECK(self.ledger.memory()->peak() - before == d.dq.nbytes() + d.dk.nbytes() + d.dv.nbytes());
    return static_cast<int64_t>(allocated() - start);
  };
  const int64_t half = bytes_taken(512), whole = bytes_taken(1024);
  CAPTURE(half);
  CAPTURE(whole);
  CHECK(whole <= 2 * half);
  CHECK(whole < 1024 * 1024 * 4 / 2);  // half of the scores of one head
}
#endif
