#include "yotta/nn/cpu/columns.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("add_bias adds to every row, bias_backward sums every column, added to what is there") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor bias = Tensor::from<float>({10, 20}, {2});
  CHECK(add_bias(x, bias).values() == std::vector<double>{11, 22, 13, 24, 15, 26});
  Tensor dbias = Tensor::full({2}, 100);
  bias_backward(x, dbias);
  CHECK(dbias.values() == std::vector<double>{109, 112});
}

TEST_CASE("column sums for sizes around the vector and the group of rows") {
  for (const int64_t N : {0, 1, 31, 32, 33, 100})
    for (const int64_t C : {0, 1, 15, 16, 17, 70}) {
      const Tensor dy = random_tensor({N, C}, "dy");
      Tensor dbias = Tensor::zeros({C}, DType::f64);
      bias_backward(dy, dbias);
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int64_t n = 0; n < N; ++n) sum += dy.item({n, c});
        CHECK(dbias.item({c}) == doctest::Approx(sum).epsilon(1e-12));
      }
    }
}

TEST_CASE("the gradient of add_bias") {
  const Tensor x = random_tensor({5, 19}, "x"), dy = random_tensor({5, 19}, "dy");
  Tensor bias = random_tensor({19}, "bias"), dbias = Tensor::zeros({19}, DType::f64);
  bias_backward(dy, dbias);
  CHECK(gradient_mismatch(bias, dbias, [&] { return dot(add_bias(x, bias), dy); }) == "");
}

TEST_CASE("columns: errors, cost, meta and threads") {
  const Tensor x = Tensor::zeros({2, 3});
  Tensor wrong = Tensor::zeros({2});
  CHECK(
      contains(message_of([&] { add_bias(x, wrong); }), "add_bias: bias is (2) f32, expected (3)"));
  CHECK(contains(message_of([&] { bias_backward(x, wrong); }), "columns_test.cpp:"));

  const Tensor big = random_tensor({257, 401}, "big", DType::f32);
  CHECK(same_for_all_threads([&] {
    Tensor sum = Tensor::zeros({401});
    bias_backward(big, sum);
    return sum;
  }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  Tensor m = Tensor::empty({10, 8}), c = Tensor::empty({8});
  CHECK(add_bias(m, c).shape() == Shape{10, 8});
  bias_backward(m, c);
  CHECK(self.ledger.op("add_bias").bytes_read == 4 * 88);
  CHECK(self.ledger.op("bias_backward").flops == 80);
  CHECK(self.ledger.op("bias_backward").bytes_written == 4 * 8);
}
