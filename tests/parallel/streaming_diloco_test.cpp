#include "yotta/parallel/streaming_diloco.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
std::vector<ParameterPtr> vectors(const std::vector<int64_t>& sizes, DType dtype = DType::f32) {
  std::vector<ParameterPtr> made;
  for (const int64_t size : sizes)
    made.push_back(
        make_parameter("w" + std::to_string(made.size()), {1, size}, false, normal(1), 3, dtype));
  return made;
}
std::vector<int64_t> sizes_of(const std::vector<int64_t>& slots, int fragments) {
  Sgd sgd(vectors(slots));
  std::vector<int64_t> sizes;
  for (const OuterFragment& each : cut_into_fragments(sgd.slots(), fragments))
    sizes.push_back(each.size());
  return sizes;
}
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

TEST_CASE("fragments are runs of slots, of about the same size, none empty") {
  using Sizes = std::vector<int64_t>;
  CHECK(sizes_of({5, 5, 5, 5}, 1) == Sizes{20});
  CHECK(sizes_of({5, 5, 5, 5}, 2) == Sizes{10, 10});
  CHECK(sizes_of({5, 5, 5, 5}, 4) == Sizes{5, 5, 5, 5});
  CHECK(sizes_of({100, 1, 1}, 3) == Sizes{100, 1, 1});
  CHECK(sizes_of({1, 1, 100}, 3) == Sizes{1, 1, 100});
  CHECK(sizes_of({1, 1, 1, 100, 1}, 2) == Sizes{103, 1});
}

TEST_CASE("weights are copied out in order, and set back, mixed with their own") {
  Sgd sgd(vectors({2, 3}, DType::f64));
  std::deque<OuterFragment> fragments = cut_into_fragments(sgd.slots(), 1);
  OuterFragment& all = fragments[0];
  std::vector<double> before;
  for (Optimizer::Slot& slot : sgd.slots())
    for (const double each : slot.weight().values()) before.push_back(each);
  CHECK(all.outer.values() == before);
  Tensor copy = Tensor::zeros({6}, DType::f64);
  all.copy_weights(copy);
  CHECK(copy.rows(0, 5).values() == before);
  CHECK(copy.item({5}) == 0);
  all.outer.fill(2);
  all.set_weights(0.25);
  for (size_t i = 0; i < 2; ++i)
    CHECK(sgd.slots()[0].weight().values()[i] == 0.25 * before[i] + 0.75 * 2);
  all.weight = 3, all.steps = 2;
  all.begin_again();
  CHECK(sgd.slots()[1].weight().values() == std::vector<double>{2, 2, 2});
  CHECK(all.steps == 0);
}

TEST_CASE("the agreed weights take the place of the trained ones, and back") {
  Sgd sgd(vectors({2, 3}, DType::f64));
  OuterFragment all = std::move(cut_into_fragments(sgd.slots(), 1)[0]);
  const std::vector<double> trained = sgd.slots()[1].weight().values();
  all.outer = Tensor::from<double>({1, 2, 3, 4, 5}, {5});
  all.exchange();
  CHECK(sgd.slots()[0].weight().values() == std::vector<double>{1, 2});
  CHECK(sgd.slots()[1].weight().values() == std::vector<double>{3, 4, 5});
  CHECK(all.outer.rows(2, 5).values() == trained);
  all.exchange();
  CHECK(sgd.slots()[1].weight().values() == trained);
  CHECK(all.outer.values() == std::vector<double>{1, 2, 3, 4, 5});
}

TEST_CASE("slots of two types, no slots, and fragments without one are refused") {
  std::vector<ParameterPtr> two = vectors({2}, DType::f32);
  two.push_back(vectors({2}, DType::f64)[0]);
  Sgd mixed(two), plain(vectors({1, 1}));
  CHECK(contains(message_of([&] { cut_into_fragments(mixed.slots(), 1); }), "has one type"));
  CHECK(contains(message_of([&] { cut_into_fragments(plain.slots(), 3); }), "3 fragments of 2"));
  CHECK(contains(message_of([&] { cut_into_fragments(plain.slots(), 0); }), "0 fragments of 2"));
  std::vector<Optimizer::Slot> none;
  CHECK(contains(message_of([&] { cut_into_fragments(none, 1); }), "1 fragments of 0"));
}

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
