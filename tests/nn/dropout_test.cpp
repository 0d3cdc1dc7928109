#include "yotta/nn/dropout.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
const Random random_numbers(3, "dropout");
}

TEST_CASE("what is kept grows by 1 / (1 - p), the rest is zero, and the share is right") {
  const Tensor x = Tensor::full({20000}, 3);
  Tensor mask;
  const Tensor y = dropout(x, 0.25, random_numbers, 0, mask);
  int64_t dropped = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (mask.item({i}) == 0) ++dropped;
    CHECK_MESSAGE(y.item({i}) == (mask.item({i}) == 0 ? 0 : 4), i);
    if (y.item({i}) != (mask.item({i}) == 0 ? 0 : 4)) break;
  }
  CHECK(std::abs(static_cast<double>(dropped) / 20000 - 0.25) <= 0.015);  // five sigma
}

TEST_CASE("the mask depends on the place in the whole run, however it is cut") {
  const Tensor x = Tensor::full({103}, 1);
  Tensor whole, part;
  dropout(x, 0.5, random_numbers, 40, whole);
  for (const int64_t begin : {0, 1, 2, 3, 50, 101}) {
    dropout(x.rows(begin, 103), 0.5, random_numbers, 40 + begin, part);
    CHECK(same_bits(part, whole.rows(begin, 103)));
  }
  Tensor other;
  dropout(x, 0.5, Random(4, "dropout"), 40, other);
  CHECK_FALSE(same_bits(other, whole));
}

TEST_CASE("a rank that holds some columns of every row draws the whole tensor's mask there") {
  Tensor whole, part;
  dropout(Tensor::full({5, 12}, 1), 0.5, random_numbers, 100, whole);
  const auto first_of_row = [](int64_t row) { return 100 + 12 * row + 3; };  // columns 3 to 9
  dropout_rows(Tensor::full({5, 7}, 1), 5, 0.5, random_numbers, first_of_row, part);
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t c = 0; c < 7; ++c) CHECK(part.item({row, c}) == whole.item({row, c + 3}));
}

TEST_CASE("p = 0 changes nothing") {
  const Tensor x = random_tensor({50}, "x");
  Tensor mask;
  CHECK(same_bits(dropout(x, 0, random_numbers, 0, mask), x));
  CHECK(same_bits(dropout_backward(x, mask, 0), x));
}

TEST_CASE("the gradient of dropout") {
  Tensor x = random_tensor({41}, "x"), mask;
  const Tensor dy = random_tensor({41}, "dy");
  dropout(x, 0.3, random_numbers, 5, mask);
  const Tensor dx = dropout_backward(dy, mask, 0.3);
  Tensor again;
  CHECK(gradient_mismatch(
            x, dx, [&] { return dot(dropout(x, 0.3, random_numbers, 5, again), dy); }, 1e-9) == "");
}

TEST_CASE("dropout: errors, cost, meta and threads") {
  const Tensor x = Tensor::zeros({4, 3});
  Tensor mask;
  CHECK(contains(message_of([&] { dropout(x, 1, random_numbers, 0, mask); }),
                 "dropout: p is 1, expected 0 <= p < 1"));
  CHECK(
      contains(message_of([&] { dropout(x, NAN, random_numbers, 0, mask); }), "dropout_test.cpp:"));
  CHECK(contains(message_of([&] { dropout_backward(x, Tensor::zeros({3}), 0.5); }),
                 "dropout_backward: mask is (3) f32, expected (4, 3)"));
  CHECK(contains(message_of([&] { dropout_backward(x, x, 0.5); }), "expected u8"));

  const Tensor big = random_tensor({70001}, "big", DType::f32);
  CHECK(same_for_all_threads([&] { return dropout(big, 0.5, random_numbers, 3, mask); }));
  CHECK(same_for_all_threads([&] { return dropout_backward(big, mask, 0.5); }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({10, 8});
  CHECK(dropout(m, 0.5, random_numbers, 0, mask).shape() == Shape{10, 8});
  CHECK(mask.describe() == "(10, 8) u8 on meta");
  CHECK(dropout_backward(m, mask, 0.5).shape() == Shape{10, 8});
  CHECK(self.ledger.op("dropout").flops == 160);
  CHECK(self.ledger.op("dropout").bytes_written == 80 * 5);
  CHECK(self.ledger.op("dropout_backward").bytes_read == 80 * 5);
}
