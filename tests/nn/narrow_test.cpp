#include "yotta/nn/narrow.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("narrow takes the right elements along every dim, and cat puts them back") {
  const Tensor x = random_tensor({2, 6, 3, 5}, "x");
  for (int dim = 0; dim < 4; ++dim) {
    const int64_t size = x.dim(dim);
    for (const int64_t at : {int64_t{0}, int64_t{1}, size}) {
      const std::vector<Tensor> parts = {narrow(x, dim, 0, at), narrow(x, dim, at, size - at)};
      CHECK(parts[0].dim(dim) == at);
      CHECK(same_bits(cat(parts, dim), x));
    }
  }
  CHECK(narrow(x, 1, 2, 2).item({1, 1, 2, 3}) == x.item({1, 3, 2, 3}));
  CHECK(narrow(x, 3, 4, 1).item({1, 5, 2, 0}) == x.item({1, 5, 2, 4}));
  const std::vector<Tensor> three = {narrow(x, 1, 4, 2), narrow(x, 1, 0, 1), narrow(x, 1, 1, 3)};
  CHECK(cat(three, 1).item({1, 2, 0, 0}) == x.item({1, 0, 0, 0}));
}

TEST_CASE("any type, and nothing at all") {
  const Tensor ids = Tensor::from<int32_t>({0, 1, 2, 3, 4, 5}, {2, 3});
  CHECK(narrow(ids, 1, 1, 2).values() == std::vector<double>{1, 2, 4, 5});
  const Tensor none = Tensor::zeros({0, 4, 2});
  CHECK(narrow(none, 1, 1, 2).shape() == Shape{0, 2, 2});
  CHECK(narrow(ids, 1, 1, 0).shape() == Shape{2, 0});
  CHECK(cat(std::vector<Tensor>{none, none}, 1).shape() == Shape{0, 8, 2});
  CHECK(narrow(Tensor::zeros({2, 0}), 1, 0, 0).shape() == Shape{2, 0});
}

TEST_CASE("nothing is copied where nothing has to move") {
  const Tensor x = random_tensor({1, 4, 3}, "x"), y = random_tensor({2, 4}, "y");
  CHECK(narrow(x, 1, 1, 2).shares_memory(x));
  CHECK(narrow(y, 0, 1, 1).shares_memory(y));
  CHECK(narrow(y, 1, 0, 4).shares_memory(y));
  CHECK_FALSE(narrow(y, 1, 0, 3).shares_memory(y));
  CHECK(cat(std::vector<Tensor>{y}, 1).shares_memory(y));
}

TEST_CASE("narrow and cat: errors, cost and meta") {
  const Tensor x = Tensor::zeros({2, 4});
  const auto joined = [&](const Tensor& other, int dim) {
    return message_of([&] { cat(std::vector<Tensor>{x, other}, dim); });
  };
  CHECK(contains(
      message_of([&] { narrow(x, 1, 3, 2); }),
      "narrow: start 3 and length 2 along dim 1 of (2, 4) f32; the range must lie in 0 to 4"));
  CHECK(contains(message_of([&] { narrow(x, 2, 0, 0); }), "dim 2 of (2, 4) f32; expected 0 to 1"));
  CHECK(contains(message_of([&] { cat({}, 0); }), "cat: no tensors"));
  CHECK(contains(joined(Tensor::zeros({3, 4}), 1),
                 "cat: tensor 1 is (3, 4) f32 and tensor 0 is (2, 4) f32"));
  CHECK(contains(joined(Tensor::zeros({2, 4}, DType::f64), 0),
                 "types and all dims but 0 must agree"));
  CHECK(contains(joined(Tensor::zeros({2}), 0), "types and all dims but 0 must agree"));
  CHECK(contains(joined(x, 2), "narrow_test.cpp:"));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({2, 4});
  CHECK(cat(std::vector<Tensor>{narrow(m, 1, 0, 3), m}, 1).shape() == Shape{2, 7});
  CHECK(self.ledger.op("narrow").bytes_read == 24);
  CHECK(self.ledger.op("cat").bytes_written == 56);
}
