#include "yotta/nn/grad_clip.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace yotta;

TEST_CASE("the norm is over every gradient of the model") {
  const ParameterPtr a = make_parameter("a", {1, 2}, true, ones(), 0, DType::f32);
  const ParameterPtr b = make_parameter("b", {1, 1}, false, ones(), 0, DType::f32);
  const ParameterPtr unused = make_parameter("u", {1, 1}, false, ones(), 0, DType::f32);
  a->gradient().copy_from(Tensor::from<float>({2, 3}, {1, 2}));
  b->gradient().fill(6);
  CHECK(gradient_norm({a, b, unused}) == 7);
}

TEST_CASE("the norm has the same bits for any number of threads, at any length") {
  for (const int64_t n : {0, 1, 15, 17, 16384, 100001}) {
    const ParameterPtr w = make_parameter("w", {1, n}, false, normal(1), 3, DType::f32);
    double plain = 0;
    for (const double x : w->value.values()) plain += x * x;
    RankContext rank;
    const ContextScope scope(rank);
    rank.threads = 1;
    const double one = sum_of_squares(w->value);
    rank.threads = 3;
    CHECK(sum_of_squares(w->value) == one);
    CHECK(one == doctest::Approx(plain));
  }
}

TEST_CASE("the scale cuts to the limit, leaves short gradients alone, and does not hide NaN") {
  CHECK(clip_scale(4, 1) == 0.25);
  CHECK(clip_scale(0.5, 1) == 1);
  CHECK(clip_scale(100, 0) == 1);
  const ParameterPtr w = make_parameter("w", {1, 40}, false, zeros(), 0, DType::f32);
  w->gradient().data<float>()[37] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(gradient_norm({w})));
}

TEST_CASE("on meta the norm costs its bytes and stands for nothing to clip") {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const ParameterPtr w = make_parameter("w", {8, 8}, true, normal(1), 0, DType::f32);
  w->gradient();
  CHECK(clip_scale(gradient_norm({w}), 1) == 1);
  CHECK(rank.ledger.op("sum_of_squares").bytes_read == 256);
}
