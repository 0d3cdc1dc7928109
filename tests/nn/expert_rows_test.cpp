#include "yotta/nn/expert_rows.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const Tensor& page() {  // the example of the header's comment
  static const Tensor expert = Tensor::from<int32_t>({1, 2, 0, 1, 1, 0}, {3, 2});
  return expert;
}

std::vector<int32_t> ids(const Tensor& of) {
  const auto span = of.span<int32_t>();
  return {span.begin(), span.end()};
}

}  // namespace

TEST_CASE("assignments are sorted by expert, then by token") {
  const ExpertRows all = sort_by_expert(page(), 3);
  CHECK(ids(all.assignment) == std::vector<int32_t>{2, 5, 0, 3, 4, 1});
  CHECK(all.counts == std::vector<int64_t>{2, 3, 1});
  const ExpertRows none = sort_by_expert(Tensor::empty({0, 2}, DType::i32), 2);
  CHECK(none.assignment.numel() == 0);
  CHECK(none.counts == std::vector<int64_t>{0, 0});
}

TEST_CASE("what is above the capacity is dropped, the last tokens first") {
  const ExpertRows two = sort_by_expert(page(), 3, 2);
  CHECK(ids(two.assignment) == std::vector<int32_t>{2, 5, 0, 3, 1});
  CHECK(two.counts == std::vector<int64_t>{2, 2, 1});
  const std::vector<int64_t> before = {1, 0, 2};  // of earlier tokens, on other ranks
  const ExpertRows later = sort_by_expert(page(), 3, 2, before);
  CHECK(ids(later.assignment) == std::vector<int32_t>{2, 0, 3});
  CHECK(later.counts == std::vector<int64_t>{1, 2, 0});
  CHECK(sort_by_expert(page(), 3, 0).assignment.numel() == 0);
}

TEST_CASE("the capacity is a share of the assignments, rounded up") {
  CHECK(expert_capacity(1, 8, 2, 4) == 4);
  CHECK(expert_capacity(1.25, 7, 1, 4) == 3);
  CHECK(expert_capacity(0, 7, 1, 4) == no_capacity);
  CHECK(contains(message_of([] { expert_capacity(-1, 7, 1, 4); }), "capacity factor"));
  CHECK(contains(message_of([] { expert_capacity(std::nan(""), 7, 1, 4); }), "capacity factor"));
}

TEST_CASE("rows are copied to their expert and summed up again, each the other's backward") {
  const ExpertRows rows = sort_by_expert(page(), 3, 2);  // assignment 4 is dropped
  Tensor x = random_tensor({3, 5}, "x"), weight = random_tensor({3, 2}, "weight");
  const Tensor gathered = gather_rows(x, rows.assignment, 2);
  const int64_t token[] = {1, 2, 0, 1, 0};
  for (int64_t i = 0; i < 5; ++i)
    CHECK(same_bits(gathered.rows(i, i + 1), x.rows(token[i], token[i] + 1)));

  const Tensor drows = random_tensor({5, 5}, "drows");
  const Tensor dx = gather_rows_backward(drows, rows.assignment, 3, 2);
  CHECK(gradient_mismatch(
            x, dx, [&] { return dot(gather_rows(x, rows.assignment, 2), drows); }, 1e-9) == "");

  Tensor y = random_tensor({5, 5}, "y");
  const Tensor dy = random_tensor({3, 5}, "dy");
  const auto loss = [&] { return dot(combine_rows(y, rows.assignment, weight), dy); };
  const CombineGradients d = combine_rows_backward(dy, y, rows.assignment, weight);
  CHECK(gradient_mismatch(y, d.drows, loss, 1e-9) == "");
  CHECK(gradient_mismatch(weight, d.dweight, loss, 1e-9) == "");
  CHECK(d.dweight.item({2, 0}) == 0);
}

TEST_CASE("a token that has lost all its experts gets nothing, and gives no gradient") {
  const Tensor expert = Tensor::from<int32_t>({0, 0}, {2, 1});
  const ExpertRows rows = sort_by_expert(expert, 1, 1);
  const Tensor y = combine_rows(Tensor::full({1, 3}, 2, DType::f64), rows.assignment,
                                Tensor::full({2, 1}, 1, DType::f64));
  CHECK(y.values() == std::vector<double>{2, 2, 2, 0, 0, 0});
  const Tensor dx =
      gather_rows_backward(Tensor::full({1, 3}, 5, DType::f64), rows.assignment, 2, 1);
  CHECK(dx.values() == std::vector<double>{5, 5, 5, 0, 0, 0});
}

TEST_CASE("expert rows: bf16 is summed in f32, threads, meta, errors") {
  const Tensor expert = Tensor::from<int32_t>({0, 1, 0, 1}, {2, 2});
  const ExpertRows rows = sort_by_expert(expert, 2);
  const Tensor y = random_tensor({4, 7}, "y", DType::bf16);
  const Tensor weight = random_tensor({2, 2}, "weight", DType::f32);
  const Tensor sum = combine_rows(y, rows.assignment, weight);
  CHECK(sum.dtype() == DType::bf16);
  const Tensor wide = combine_rows(y.to(DType::f32), rows.assignment, weight);
  CHECK(same_bits(sum, wide.to(DType::bf16)));

  Tensor many = Tensor::empty({400, 2}, DType::i32);
  for (int64_t a = 0; a < 800; ++a) many.data<int32_t>()[a] = static_cast<int32_t>(a * a % 7);
  const ExpertRows of = sort_by_expert(many, 7);
  const Tensor x = random_tensor({400, 100}, "big", DType::f32);
  const Tensor out = random_tensor({800, 100}, "out", DType::f32);
  const Tensor w = random_tensor({400, 2}, "w", DType::f32);
  CHECK(same_for_all_threads([&] { return gather_rows(x, of.assignment, 2); }));
  CHECK(same_for_all_threads([&] { return combine_rows(out, of.assignment, w); }));
  CHECK(same_for_all_threads(
      [&] { return combine_rows_backward(x, out, of.assignment, w).dweight; }));

  CHECK(contains(message_of([&] { sort_by_expert(expert, 1); }),
                 "assignment 1 goes to expert 1 of 1"));
  CHECK(contains(message_of([&] { gather_rows_backward(x, of.assignment, 400, 2); }),
                 "assignment is (800) i32, expected (400)"));
  CHECK(contains(message_of([&] { combine_rows(y, rows.assignment, weight.to(DType::bf16)); }),
                 "weight is (2, 2) bf16, expected f32"));
  const Tensor beyond = Tensor::from<int32_t>({0, 4}, {2}), two = random_tensor({2, 7}, "two");
  const char* const refused = "row 1 is of assignment 4, but there are 4";
  CHECK(contains(message_of([&] { gather_rows(two, beyond, 2); }), refused));
  CHECK(
      contains(message_of([&] { combine_rows_backward(two, two, beyond, weight.to(DType::f64)); }),
               refused));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const ExpertRows even = sort_by_expert(Tensor::empty({5, 2}, DType::i32), 4);
  CHECK(even.counts == std::vector<int64_t>{3, 3, 2, 2});
  const std::vector<int64_t> before = {1, 0, 3, 5};
  const ExpertRows full = sort_by_expert(Tensor::empty({5, 2}, DType::i32), 4, 3, before);
  CHECK(full.counts == std::vector<int64_t>{2, 3, 0, 0});
  CHECK(full.assignment.numel() == 5);
  const Tensor there = gather_rows(Tensor::empty({5, 8}), even.assignment, 2);
  CHECK(there.shape() == Shape{10, 8});
  CHECK(combine_rows(there, even.assignment, Tensor::empty({5, 2})).shape() == Shape{5, 8});
  CHECK(self.ledger.op("gather_rows").bytes_read == 10 * 8 * 4);
}
