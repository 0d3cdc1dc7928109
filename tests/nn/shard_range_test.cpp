#include "yotta/nn/shard_range.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("parts are taken from a whole matrix, and put together they are the whole") {
  Tensor whole = Tensor::empty({4, 6});
  for (int64_t i = 0; i < 24; ++i) whole.data<float>()[i] = static_cast<float>(i);
  Tensor again = Tensor::zeros({4, 6});
  for (const int64_t row : {0, 2})
    for (const int64_t column : {0, 3}) {
      const ShardRange part{2, 3, row, column, 4, 6};
      CHECK_FALSE(part.is_whole());
      Tensor held = Tensor::empty({2, 3});
      take_shard(whole, part, held);
      CHECK(held.item({1, 2}) == whole.item({row + 1, column + 2}));
      put_shard(held, part, again);
    }
  CHECK(again.values() == whole.values());
}

TEST_CASE("a vector is one row, and a part without a whole is the whole") {
  const ShardRange all{1, 5};
  CHECK(all.is_whole());
  CHECK(all.all_rows() == 1);
  CHECK(all.all_columns() == 5);
  const Tensor vector = Tensor::from<double>({1, 2, 3, 4, 5}, {5});
  Tensor same = Tensor::zeros({5}, DType::f64), last = Tensor::zeros({2}, DType::f64);
  take_shard(vector, all, same);
  CHECK(same.values() == vector.values());
  take_shard(vector, {1, 2, 0, 3, 1, 5}, last);
  CHECK(last.values() == std::vector<double>{4, 5});
}

TEST_CASE("rows beyond the whole are padding: zeros, and put nowhere") {
  const Tensor whole = Tensor::full({3, 2}, 5);
  Tensor again = Tensor::zeros({3, 2});
  for (const int64_t rank : {0, 1, 2}) {
    const ShardRange part{2, 2, 2 * rank, 0, 3, 2};
    CHECK(part.rows_in_whole() == std::max<int64_t>(0, std::min<int64_t>(2, 3 - 2 * rank)));
    CHECK_FALSE(part.is_whole());
    Tensor held = Tensor::full({2, 2}, 9);
    take_shard(whole, part, held);
    for (int64_t r = 0; r < 2; ++r) CHECK(held.item({r, 1}) == (2 * rank + r < 3 ? 5 : 0));
    put_shard(held, part, again);
  }
  CHECK(again.values() == whole.values());
}

TEST_CASE("tensors of other sizes are refused") {
  Tensor part = Tensor::zeros({2, 3});
  const std::string text = message_of([&] {
    take_shard(Tensor::zeros({3, 6}), {2, 3, 0, 0, 4, 6}, part);
  });
  CHECK(contains(text, "expected (4, 6) and (2, 3)"));
  CHECK(contains(message_of([&] {
                   take_shard(Tensor::zeros({2, 3}, DType::f64), {2, 3}, part);
                 }),
                 "of one type"));
}
