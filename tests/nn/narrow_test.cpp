#include "yotta/nn/narrow.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("cut takes the right elements along every dim, and join puts them back") {
  const Tensor x = random_tensor({2, 6, 3, 5}, "x");
  for (int dim = 0; dim < 4; ++dim) {
    const int64_t size = x.dim(dim);
    for (const int64_t at : {int64_t{0}, int64_t{1}, size}) {
      const std::vector<Tensor> parts = {cut(x, dim, 0, at), cut(x, dim, at, size)};
      CHECK(parts[0].dim(dim) == at);
      CHECK(same_bits(join(parts, dim), x));
    }
  }
  CHECK(cut(x, 1, 2, 4).item({1, 1, 2, 3}) == x.item({1, 3, 2, 3}));
  CHECK(cut(x, 3, 4, 5).item({1, 5, 2, 0}) == x.item({1, 5, 2, 4}));
  const std::vector<Tensor> three = {cut(x, 1, 4, 6), cut(x, 1, 0, 1), cut(x, 1, 1, 4)};
  CHECK(join(three, 1).item({1, 2, 0, 0}) == x.item({1, 0, 0, 0}));
}

TEST_CASE("any type, and nothing at all") {
  const Tensor ids = Tensor::from<int32_t>({0, 1, 2, 3, 4, 5}, {2, 3});
  CHECK(cut(ids, 1, 1, 3).values() == std::vector<double>{1, 2, 4, 5});
  const Tensor none = Tensor::zeros({0, 4, 2});
  CHECK(cut(none, 1, 1, 3).shape() == Shape{0, 2, 2});
  CHECK(cut(ids, 1, 1, 1).shape() == Shape{2, 0});
  CHECK(join(std::vector<Tensor>{none, none}, 1).shape() == Shape{0, 8, 2});
  CHECK(cut(Tensor::zeros({2, 0}), 1, 0, 0).shape() == Shape{2, 0});
}

TEST_CASE("nothing is copied where nothing has to move") {
  const Tensor x = random_tensor({1, 4, 3}, "x"), y = random_tensor({2, 4}, "y");
  CHECK(cut(x, 1, 1, 3).shares_memory(x));
  CHECK(cut(y, 0, 1, 2).shares_memory(y));
  CHECK(cut(y, 1, 0, 4).shares_memory(y));
  CHECK_FALSE(cut(y, 1, 0, 3).shares_memory(y));
  CHECK(join(std::vector<Tensor>{y}, 1).shares_memory(y));
}

TEST_CASE("cut and join: errors, cost and meta") {
  const Tensor x = Tensor::zeros({2, 4});
  const auto joined = [&](const Tensor& other, int dim) {
    return message_of([&] { join(std::vector<Tensor>{x, other}, dim); });
  };
  CHECK(contains(message_of([&] { cut(x, 1, 3, 5); }), "cut: 3 to 5 along dim 1 of (2, 4) f32"));
  CHECK(contains(message_of([&] { cut(x, 2, 0, 0); }), "dim 2 of (2, 4) f32"));
  CHECK(contains(message_of([&] { join({}, 0); }), "nothing to join"));
  CHECK(contains(joined(Tensor::zeros({3, 4}), 1), "join: (3, 4) f32 does not stand beside"));
  CHECK(contains(joined(Tensor::zeros({2, 4}, DType::f64), 0), "does not stand beside"));
  CHECK(contains(joined(Tensor::zeros({2}), 0), "does not stand beside"));
  CHECK(contains(joined(x, 2), "narrow_test.cpp:"));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({2, 4});
  CHECK(join(std::vector<Tensor>{cut(m, 1, 0, 3), m}, 1).shape() == Shape{2, 7});
  CHECK(self.ledger.op("cut").bytes_read == 24);
  CHECK(self.ledger.op("join").bytes_written == 56);
}
