#include "yotta/parallel/outer_gradients.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
Tensor drawn(int64_t n, DType dtype) {
  Tensor x = Tensor::empty({n}, DType::f64);
  const Random random(7, "outer");
  for (int64_t i = 0; i < n; ++i) x.data<double>()[i] = random.normal(static_cast<uint64_t>(i));
  return x.to(dtype);
}
Tensor there_and_back(const Tensor& x, int bits) {
  Tensor packed = Tensor::empty({packed_bytes(x.numel(), bits)}, DType::u8);
  Tensor back = Tensor::empty(x.shape(), x.dtype());
  pack(x, bits, packed);
  unpack(packed, bits, back);
  return back;
}
}  // namespace

TEST_CASE("a number comes back within half a scale of its block") {
  for (const int bits : {8, 4})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const int64_t n : {0, 1, 2, 127, 128, 129, 1000}) {
        const Tensor x = drawn(n, dtype);
        const std::vector<double> before = x.values(), after = there_and_back(x, bits).values();
        for (int64_t block = 0; block < n; block += numbers_per_scale) {
          const auto first = before.begin() + block;
          const auto last = before.begin() + std::min(n, block + numbers_per_scale);
          double largest = 0;
          for (auto each = first; each != last; ++each)
            largest = std::max(largest, std::abs(*each));
          for (auto i = static_cast<size_t>(block); i < static_cast<size_t>(last - before.begin());
               ++i)
            CHECK(std::abs(after[i] - before[i]) <= 0.5001 * largest / (bits == 8 ? 127 : 7));
        }
      }
}

TEST_CASE("codes are exact: a block of whole numbers comes back as it was") {
  for (const int bits : {8, 4}) {
    const int most = bits == 8 ? 127 : 7;
    std::vector<float> numbers;
    for (int i = -most; i <= most; ++i) numbers.push_back(static_cast<float>(i) * 0.25f);
    for (int i = 0; i < 300; ++i) numbers.push_back(0);
    numbers.resize(128 * (numbers.size() / 128));
    const Tensor x = Tensor::from<float>(numbers, {std::ssize(numbers)});
    if (bits == 4) CHECK(there_and_back(x, bits).values() == x.values());
    const Tensor first = x.rows(0, 2 * most + 1 < 128 ? 2 * most + 1 : 128);
    CHECK(there_and_back(first, bits).values() == first.values());
  }
}

TEST_CASE("bytes: a 3.9th of f32 with 8 bits, a 7.5th with 4") {
  CHECK(packed_bytes(0, 4) == 0);
  CHECK(packed_bytes(1, 4) == 5);
  CHECK(packed_bytes(129, 4) == 8 + 65);
  CHECK(packed_bytes(1280, 8) == 40 + 1280);
  CHECK(std::abs(4.0 * 12800 / static_cast<double>(packed_bytes(12800, 8)) - 3.88) < 0.01);
  CHECK(std::abs(4.0 * 12800 / static_cast<double>(packed_bytes(12800, 4)) - 7.53) < 0.01);
}

TEST_CASE("numbers that are not finite come back as NaN, and spoil their block alone") {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (const int bits : {8, 4}) {
      Tensor x = drawn(300, DType::f32);
      x.data<float>()[140] = static_cast<float>(bad);
      const std::vector<double> back = there_and_back(x, bits).values();
      for (size_t i = 0; i < back.size(); ++i) CHECK(std::isnan(back[i]) == (i >= 128 && i < 256));
    }
}

TEST_CASE("with feedback what is sent adds up to what was meant") {
  const Tensor x = drawn(200, DType::f64);
  Tensor lost = Tensor::zeros({200}, DType::f64),
         packed = Tensor::empty({packed_bytes(200, 4)}, DType::u8);
  Tensor back = Tensor::empty({200}, DType::f64);
  std::vector<double> sum(200);
  for (int round = 0; round < 20; ++round) {
    pack_with_feedback(x, 4, packed, lost);
    unpack(packed, 4, back);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += back.values()[i];
  }
  for (size_t i = 0; i < sum.size(); ++i)
    CHECK(std::abs(sum[i] + lost.values()[i] - 20 * x.values()[i]) <= 1e-10);
}

TEST_CASE("a message carries its sender's weight") {
  const Tensor x = Tensor::from<float>({7, -7, 3}, {3});
  Tensor none, sum = Tensor::full({3}, 1);
  CHECK(add_message(sum, packed_message(x, 0.5, 4, none), 4) == 0.5);
  CHECK(sum.values() == std::vector<double>{4.5, -2.5, 2.5});
  CHECK(packed_message(x, 1, 4, none).numel() == message_bytes(3, 4));
}

TEST_CASE("other bits and other sizes are refused") {
  Tensor to = Tensor::empty({7}, DType::u8);
  const Tensor x = drawn(3, DType::f32);
  CHECK(contains(message_of([&] { pack(x, 2, to); }), "there are 8 and 4"));
  CHECK(contains(message_of([&] { pack(x, 4, to); }), "the packed bytes"));
}
