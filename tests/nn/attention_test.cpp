#include "yotta/nn/attention.hpp"

#include <doctest/doctest.h>

#include <string_view>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// The formula, one number at a time, in f64: o(b, t, h) = sum over j <= t of softmax(q k / sqrt d)
// v.
Tensor by_hand(const Tensor& q, const Tensor& k, const Tensor& v) {
  Tensor o = Tensor::zeros(q.shape(), DType::f64);
  const int64_t T = q.dim(1), H = q.dim(2), Hkv = k.dim(2), d = q.dim(3);
  for (int64_t row = 0; row < q.dim(0) * T * H; ++row) {
    const int64_t b = row / (T * H), t = row / H % T, h = row % H, shared = h / (H / Hkv);
    std::vector<double> score(static_cast<size_t>(t + 1));
    double sum = 0;
    for (int64_t j = 0; j <= t; ++j) {
      double s = 0;
      for (int64_t c = 0; c < d; ++c) s += q.item({b, t, h, c}) * k.item({b, j, shared, c});
      sum += score[static_cast<size_t>(j)] = std::exp(s / std::sqrt(static_cast<double>(d)));
    }
    for (int64_t j = 0; j <= t; ++j)
      for (int64_t c = 0; c < d; ++c)
        o.data<double>()[row * d + c] +=
            score[static_cast<size_t>(j)] / sum * v.item({b, j, shared, c});
  }
  return o;
}
}  // namespace

TEST_CASE("plain attention agrees with its formula, grouped queries included") {
  for (const int64_t T : {1, 2, 9})
    for (const int64_t Hkv : {1, 2, 4}) {
      const Tensor q = random_tensor({2, T, 4, 5}, "q"), k = random_tensor({2, T, Hkv, 5}, "k");
      const Tensor v = random_tensor({2, T, Hkv, 5}, "v");
      CHECK(largest_difference(attention_plain(q, k, v).o, by_hand(q, k, v)) <= 1e-13);
    }
}

TEST_CASE("the first token sees itself only, and no token sees a later one") {
  const Tensor q = random_tensor({1, 6, 2, 4}, "q"), k = random_tensor({1, 6, 2, 4}, "k");
  Tensor v = random_tensor({1, 6, 2, 4}, "v");
  const Tensor before = attention_plain(q, k, v).o;
  CHECK(largest_difference(before.reshape({6, 8}).rows(0, 1), v.reshape({6, 8}).rows(0, 1)) <=
        1e-15);
  v.reshape({6, 8}).rows(4, 6).fill(100);
  const Tensor after = attention_plain(q, k, v).o;
  CHECK(same_bits(after.reshape({6, 8}).rows(0, 4), before.reshape({6, 8}).rows(0, 4)));
  CHECK_FALSE(same_bits(after, before));
}

TEST_CASE("gradients of plain attention, with and without dropout and grouped queries") {
  for (const double p : {0.0, 0.3})
    for (const int64_t Hkv : {1, 2}) {
      Tensor q = random_tensor({2, 5, 2, 3}, "q"), k = random_tensor({2, 5, Hkv, 3}, "k");
      Tensor v = random_tensor({2, 5, Hkv, 3}, "v");
      const Tensor dout = random_tensor({2, 5, 2, 3}, "dout");
      AttentionDropout dropout;
      dropout.p = p;
      const auto loss = [&] { return dot(attention_plain(q, k, v, dropout).o, dout); };
      const PlainAttention saved = attention_plain(q, k, v, dropout);
      const AttentionGradients d = attention_plain_backward(dout, q, k, v, saved, p);
      CHECK(gradient_mismatch(q, d.dq, loss) == "");
      CHECK(gradient_mismatch(k, d.dk, loss) == "");
      CHECK(gradient_mismatch(v, d.dv, loss) == "");
    }
}

TEST_CASE("dropout on probabilities is the same for a rank that holds some sequences or heads") {
  const Tensor q = random_tensor({3, 4, 2, 3}, "q"), k = random_tensor({3, 4, 2, 3}, "k");
  const AttentionDropout whole{.p = 0.5};
  const Tensor mask = attention_plain(q, k, k, whole).mask;  // (3, 2, 4, 4)
  const AttentionDropout later{.p = 0.5, .first_sequence = 1};
  const Tensor rest = attention_plain(q.rows(1, 3), k.rows(1, 3), k.rows(1, 3), later).mask;
  CHECK(same_bits(rest, mask.rows(1, 3)));
  const AttentionDropout second{.p = 0.5, .first_head = 1, .heads = 2};
  const Tensor one = random_tensor({3, 4, 1, 3}, "one");
  const Tensor head = attention_plain(one, one, one, second).mask.reshape({3, 16});
  for (int64_t b = 0; b < 3; ++b)
    CHECK(same_bits(head.rows(b, b + 1), mask.reshape({6, 16}).rows(2 * b + 1, 2 * b + 2)));
  int64_t dropped = 0;
  for (const double kept : mask.values()) dropped += kept == 0;
  CHECK(dropped > 20);
  CHECK(dropped < 76);
}

TEST_CASE("plain attention: f32, errors, cost, meta and threads") {
  const Tensor q = random_tensor({2, 20, 4, 8}, "q"), k = random_tensor({2, 20, 2, 8}, "k");
  const auto single = [](const Tensor& t) { return t.to(DType::f32); };
  const PlainAttention wide = attention_plain(q, k, k);
  const PlainAttention narrow = attention_plain(single(q), single(k), single(k));
  CHECK(largest_difference(narrow.o, wide.o) <= 2e-6);
  CHECK(largest_difference(
            attention_plain_backward(single(q), single(q), single(k), single(k), narrow).dk,
            attention_plain_backward(q, q, k, k, wide).dk) <= 1e-5);

  const std::string text = message_of([&] {
    attention_plain(q, random_tensor({2, 20, 3, 8}, "k"), random_tensor({2, 20, 3, 8}, "k"));
  });
  CHECK(contains(text, "attention_plain: q is (2, 20, 4, 8) f64 and k is (2, 20, 3, 8) f64"));
  CHECK(contains(text, "attention_test.cpp:"));
  CHECK(contains(message_of([&] { attention_plain(q, k, q); }), "they must agree"));
  CHECK(contains(message_of([&] { attention_plain_backward(q, q, k, k, wide, 0.5); }),
                 "p is 0.5 and the forward pass drew no mask"));

  CHECK(same_for_all_threads([&] { return attention_plain(q, k, k).o; }));
  CHECK(same_for_all_threads([&] { return attention_plain_backward(q, q, k, k, wide).dv; }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({2, 10, 4, 8}), n = Tensor::empty({2, 10, 2, 8});
  const PlainAttention out = attention_plain(m, n, n);
  CHECK(out.probabilities.shape() == Shape{2, 4, 10, 10});
  CHECK(attention_plain_backward(m, m, n, n, out).dk.shape() == Shape{2, 10, 2, 8});
  CHECK(self.ledger.op("attention_plain").flops == 4 * 100 * 8 * 8);
  CHECK(self.ledger.op("attention_plain_backward").flops == 8 * 100 * 8 * 8);
  CHECK(self.ledger.op("attention_plain").bytes_read == 4 * (640 + 2 * 320 + 2 * 800));
  CHECK(self.ledger.op("attention_plain").bytes_written == 4 * (640 + 2 * 800));
}

TEST_CASE("kinds have the names that the command line and error messages use") {
  CHECK(std::string_view(name(AttentionKind::plain)) == "plain");
  CHECK(std::string_view(name(AttentionKind::blockwise)) == "blockwise");
}
