#include "yotta/parallel/outer_fragments.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
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
