#include "yotta/nn/rope.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
double norm_of_row(const Tensor& x, int64_t row) {
  const Tensor flat = x.reshape({-1, x.dim(-1)});
  return std::sqrt(dot(flat.rows(row, row + 1), flat.rows(row, row + 1)));
}
}  // namespace

TEST_CASE("pairs are (i, i + d/2) and turn by position * theta^(-2i/d)") {
  const Tensor x = Tensor::from<double>({1, 2, 3, 4}, {1, 1, 1, 4});
  const Tensor y = rope(x, 5, 100.0);
  const double slow = 5 * std::pow(100.0, -0.5);
  CHECK(y.item({0, 0, 0, 0}) == doctest::Approx(1 * std::cos(5) - 3 * std::sin(5)));
  CHECK(y.item({0, 0, 0, 2}) == doctest::Approx(3 * std::cos(5) + 1 * std::sin(5)));
  CHECK(y.item({0, 0, 0, 1}) == doctest::Approx(2 * std::cos(slow) - 4 * std::sin(slow)));
  CHECK(y.item({0, 0, 0, 3}) == doctest::Approx(4 * std::cos(slow) + 2 * std::sin(slow)));
}

TEST_CASE("position 0 is left alone, no position changes a length") {
  const Tensor x = random_tensor({2, 5, 3, 38}, "x"), y = rope(x);
  CHECK(same_bits(y.rows(0, 1).reshape({5, 3, 38}).rows(0, 1),
                  x.rows(0, 1).reshape({5, 3, 38}).rows(0, 1)));
  for (int64_t row = 0; row < 30; ++row)
    CHECK(norm_of_row(y, row) == doctest::Approx(norm_of_row(x, row)).epsilon(1e-13));
}

TEST_CASE("columns of two runs turn as they do in the whole sequence") {
  const Tensor whole = random_tensor({1, 12, 2, 6}, "x"), y = rope(whole).reshape({12, 12});
  const Tensor rows = whole.reshape({12, 12});
  Tensor part = Tensor::empty({4, 12}, DType::f64);
  part.rows(0, 2).copy_from(rows.rows(3, 5));
  part.rows(2, 4).copy_from(rows.rows(9, 11));
  const Tensor turned = rope(part.reshape({1, 4, 2, 6}), {3, 9}).reshape({4, 12});
  CHECK(same_bits(turned.rows(0, 2), y.rows(3, 5)));
  CHECK(same_bits(turned.rows(2, 4), y.rows(9, 11)));
}

TEST_CASE("scores depend on the distance of two tokens only") {
  const Tensor q = random_tensor({1, 1, 1, 16}, "q"), k = random_tensor({1, 1, 1, 16}, "k");
  const double near = dot(rope(q, 3), rope(k, 1));
  CHECK(dot(rope(q, 103), rope(k, 101)) == doctest::Approx(near).epsilon(1e-12));
  CHECK(std::abs(dot(rope(q, 4), rope(k, 1)) - near) >= 1e-3);
}

TEST_CASE("the gradient of rope, and rope_backward undoes rope") {
  Tensor x = random_tensor({2, 3, 2, 6}, "x");
  const Tensor dy = random_tensor({2, 3, 2, 6}, "dy");
  CHECK(gradient_mismatch(x, rope_backward(dy, 7), [&] { return dot(rope(x, 7), dy); }) == "");
  CHECK(largest_difference(rope_backward(rope(x, 7), 7), x) <= 1e-14);
}

TEST_CASE("rope: f32, errors, cost, meta and threads") {
  const Tensor x = random_tensor({1, 300, 2, 64}, "x");
  CHECK(largest_difference(rope(x.to(DType::f32)), rope(x)) <= 1e-6);
  CHECK(contains(message_of([&] {
                   rope(Tensor::zeros({1, 1, 1, 3}));
                 }),
                 "rope: x is (1, 1, 1, 3) f32; the last size must be even"));
  CHECK(contains(message_of([&] { rope(Tensor::zeros({3, 4})); }), "rope_test.cpp:"));

  const Tensor big = random_tensor({2, 200, 4, 64}, "big", DType::f32);
  CHECK(same_for_all_threads([&] { return rope(big, 11); }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({1, 10, 2, 4});
  CHECK(rope(m).shape() == m.shape());
  CHECK(rope_backward(m).shape() == m.shape());
  CHECK(self.ledger.op("rope").flops == 240);
  CHECK(self.ledger.op("rope_backward").bytes_read == 320);
}

TEST_CASE("scaled angles are turned back by their gradient, and f32 has them too") {
  const RopeFrequencies scaled{100, {8, 1, 4, 64}};
  Tensor x = random_tensor({1, 3, 2, 8}, "x");
  const Tensor dy = random_tensor({1, 3, 2, 8}, "dy");
  CHECK(gradient_mismatch(x, rope_backward(dy, 7, scaled),
                          [&] { return dot(rope(x, 7, scaled), dy); }) == "");
  CHECK(largest_difference(rope_backward(rope(x, 7, scaled), 7, scaled), x) <= 1e-14);
  CHECK(largest_difference(rope(x, 7, scaled), rope(x, 7, 100)) >= 1e-2);
  CHECK(largest_difference(rope(x.to(DType::f32), 7, scaled), rope(x, 7, scaled)) <= 1e-6);
  CHECK(same_bits(rope(x, 7, {100, {}}), rope(x, 7, 100)));
}
