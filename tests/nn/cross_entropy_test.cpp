#include "yotta/nn/cross_entropy.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/nn/elementwise.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
Tensor some_targets(int64_t N, int64_t V) {
  std::vector<int32_t> ids;
  for (int64_t n = 0; n < N; ++n) ids.push_back(static_cast<int32_t>((n * 7 + 3) % V));
  return Tensor::from<int32_t>(ids, {N});
}
}  // namespace

TEST_CASE("a model that knows nothing loses log V a token, one that is sure and right nothing") {
  const Tensor targets = some_targets(5, 256);
  const CrossEntropy blank = cross_entropy(Tensor::full({5, 256}, 3), targets, 1.0 / 5);
  CHECK(blank.loss == doctest::Approx(std::log(256.0)).epsilon(1e-6));
  CHECK(blank.losses.item({2}) == doctest::Approx(std::log(256.0)).epsilon(1e-6));
  CHECK(blank.log_sum_exp.item({2}) == doctest::Approx(3 + std::log(256.0)).epsilon(1e-6));
  Tensor sure = Tensor::zeros({1, 4});
  sure.data<float>()[3] = 1000;
  CHECK(cross_entropy(sure, Tensor::from<int32_t>({3}, {1}), 1).loss == 0);
  CHECK(cross_entropy(sure, Tensor::from<int32_t>({0}, {1}), 1).loss == 1000);
}

TEST_CASE("losses are minus the log of softmax at the target") {
  const Tensor logits = scale(random_tensor({6, 37}, "logits"), 4), targets = some_targets(6, 37);
  const CrossEntropy out = cross_entropy(logits, targets, 0.25);
  const Tensor probabilities = softmax(logits);
  double sum = 0;
  for (int64_t n = 0; n < 6; ++n) {
    const int64_t target = static_cast<int64_t>(targets.item({n}));
    sum -= std::log(probabilities.item({n, target}));
    CHECK(out.losses.item({n}) ==
          doctest::Approx(-std::log(probabilities.item({n, target}))).epsilon(1e-12));
  }
  CHECK(out.loss == doctest::Approx(0.25 * sum).epsilon(1e-12));
}

TEST_CASE("the gradient of cross-entropy, as a new tensor and in place of the logits") {
  Tensor logits = random_tensor({6, 19}, "logits");
  const Tensor targets = some_targets(6, 19);
  const Tensor lse = cross_entropy(logits, targets, 0.3).log_sum_exp;
  const Tensor dlogits = cross_entropy_backward(logits, targets, lse, 0.3);
  const auto loss = [&] { return cross_entropy(logits, targets, 0.3).loss; };
  CHECK(gradient_mismatch(logits, dlogits, loss, 1e-9) == "");
  cross_entropy_backward_in_place(logits, targets, lse, 0.3);
  CHECK(same_bits(logits, dlogits));
}

TEST_CASE("a token without a target has no loss and no gradient") {
  const Tensor logits = random_tensor({3, 19}, "logits");
  const Tensor targets = Tensor::from<int32_t>({4, no_target, 18}, {3});
  const CrossEntropy out = cross_entropy(logits, targets, 0.5);
  CHECK(out.losses.item({1}) == 0);
  CHECK(out.loss == doctest::Approx(0.5 * (out.losses.item({0}) + out.losses.item({2}))));
  const Tensor d = cross_entropy_backward(logits, targets, out.log_sum_exp, 0.5);
  for (int64_t v = 0; v < 19; ++v) CHECK(d.item({1, v}) == 0);
  CHECK(d.item({2, 18}) < 0);
}

TEST_CASE("two ranks with 1 and 4 of 5 tokens add up to one with all") {
  const Tensor logits = random_tensor({5, 19}, "logits"), targets = some_targets(5, 19);
  const double scale = 1.0 / 5;
  const double parts = cross_entropy(logits.rows(0, 1), targets.rows(0, 1), scale).loss +
                       cross_entropy(logits.rows(1, 5), targets.rows(1, 5), scale).loss;
  CHECK(parts == doctest::Approx(cross_entropy(logits, targets, scale).loss).epsilon(1e-14));
}

TEST_CASE("cross-entropy: f32, errors, cost, meta and threads") {
  const Tensor logits = scale(random_tensor({8, 300}, "x"), 5), targets = some_targets(8, 300);
  const Tensor narrow = logits.to(DType::f32);
  const CrossEntropy a = cross_entropy(narrow, targets, 1), b = cross_entropy(logits, targets, 1);
  CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-6));
  CHECK(largest_difference(cross_entropy_backward(narrow, targets, a.log_sum_exp, 1),
                           cross_entropy_backward(logits, targets, b.log_sum_exp, 1)) <= 2e-6);

  const Tensor wrong = Tensor::from<int32_t>({1, 300}, {2});
  CHECK(contains(message_of([&] { cross_entropy(narrow.rows(0, 2), wrong, 1); }),
                 "cross_entropy: target 300 of token 1 is outside the vocabulary of 300"));
  CHECK(contains(message_of([&] { cross_entropy(narrow, wrong, 1); }),
                 "targets is (2) i32, expected (8)"));
  CHECK(contains(message_of([&] { cross_entropy(narrow, wrong, 1); }), "cross_entropy_test.cpp:"));

  const Tensor big = random_tensor({203, 300}, "big", DType::f32), all = some_targets(203, 300);
  const Tensor lse = cross_entropy(big, all, 1).log_sum_exp;
  CHECK(same_for_all_threads([&] { return cross_entropy(big, all, 1).losses; }));
  CHECK(same_for_all_threads([&] { return cross_entropy_backward(big, all, lse, 1); }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({10, 8}), t = Tensor::empty({10}, DType::i32);
  const CrossEntropy out = cross_entropy(m, t, 1);
  CHECK(out.losses.shape() == Shape{10});
  CHECK(cross_entropy_backward(m, t, out.log_sum_exp, 1).shape() == Shape{10, 8});
  CHECK(self.ledger.op("cross_entropy").flops == 320);
  CHECK(self.ledger.op("cross_entropy").bytes_read == 320);
  CHECK(self.ledger.op("cross_entropy_backward").bytes_written == 320);
}
