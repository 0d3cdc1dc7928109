#include "yotta/nn/embedding.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("embedding copies rows, its backward adds them where a token comes twice") {
  const Tensor table = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor ids = Tensor::from<int32_t>({2, 0, 2}, {3});
  CHECK(embedding(ids, table).values() == std::vector<double>{5, 6, 1, 2, 5, 6});
  Tensor dtable = Tensor::full({3, 2}, 100);
  embedding_backward(Tensor::from<float>({1, 2, 10, 20, 3, 4}, {3, 2}), ids, dtable);
  CHECK(dtable.values() == std::vector<double>{110, 120, 100, 100, 104, 106});
  CHECK(embedding(ids, table.to(DType::bf16)).values() == embedding(ids, table).values());
}

TEST_CASE("positions start at `first` and begin again with each sequence") {
  const Tensor positions = Tensor::from<float>({0, 1, 2, 3}, {4, 1});
  Tensor x = Tensor::full({6, 1}, 10);
  add_positions(x, positions, 3, 1);
  CHECK(x.values() == std::vector<double>{11, 12, 13, 11, 12, 13});
  Tensor d = Tensor::zeros({4, 1});
  positions_backward(Tensor::from<float>({1, 2, 3, 10, 20, 30}, {6, 1}), d, 3, 1);
  CHECK(d.values() == std::vector<double>{0, 11, 22, 33});
}

TEST_CASE("gradients of the table and of the positions") {
  Tensor table = random_tensor({5, 17}, "table"), positions = random_tensor({4, 17}, "positions");
  const Tensor ids = Tensor::from<int32_t>({4, 1, 1, 0, 4, 4}, {6});
  const Tensor dy = random_tensor({6, 17}, "dy");
  const auto loss = [&] {
    Tensor y = embedding(ids, table);
    add_positions(y, positions, 3, 1);
    return dot(y, dy);
  };
  Tensor dtable = Tensor::zeros({5, 17}, DType::f64),
         dpositions = Tensor::zeros({4, 17}, DType::f64);
  embedding_backward(dy, ids, dtable);
  positions_backward(dy, dpositions, 3, 1);
  CHECK(gradient_mismatch(table, dtable, loss) == "");
  CHECK(gradient_mismatch(positions, dpositions, loss) == "");
}

TEST_CASE("embedding: errors, cost, meta and threads") {
  const Tensor table = Tensor::zeros({3, 2});
  CHECK(contains(message_of([&] {
                   embedding(Tensor::from<int32_t>({0, 3}, {2}), table);
                 }),
                 "embedding: id 3 of token 1 is outside the vocabulary of 3"));
  CHECK(contains(message_of([&] { embedding(Tensor::from<int32_t>({-1}, {1}), table); }),
                 "embedding_test.cpp:"));
  CHECK(contains(message_of([&] { embedding(Tensor::zeros({2}), table); }), "expected i32"));
  Tensor x = Tensor::zeros({5, 2});
  CHECK(contains(message_of([&] { add_positions(x, table, 2); }),
                 "5 rows are not whole sequences of 2 tokens"));
  CHECK(contains(message_of([&] { add_positions(x, table, 5); }), "positions 0 to 5 are needed"));

  std::vector<int32_t> many;
  for (int32_t n = 0; n < 300; ++n) many.push_back(n * n % 7);
  const Tensor ids = Tensor::from<int32_t>(many, {300});
  const Tensor dy = random_tensor({300, 400}, "dy", DType::f32);
  CHECK(same_for_all_threads([&] {
    Tensor d = Tensor::zeros({7, 400});
    embedding_backward(dy, ids, d);
    return d;
  }));
  CHECK(same_for_all_threads([&] { return embedding(ids, dy.rows(0, 7)); }));
  CHECK(same_for_all_threads([&] {
    Tensor y = dy.clone();
    add_positions(y, dy, 100, 3);
    return y;
  }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  Tensor t = Tensor::empty({100, 8}), m = Tensor::empty({10, 8});
  const Tensor i = Tensor::empty({10}, DType::i32);
  CHECK(embedding(i, t).shape() == Shape{10, 8});
  embedding_backward(m, i, t);
  add_positions(m, t, 5);
  positions_backward(m, t, 5);
  CHECK(self.ledger.op("embedding").bytes_read == 320);
  CHECK(self.ledger.op("embedding_backward").flops == 80);
  CHECK(self.ledger.op("add_positions").flops == 80);
  CHECK(self.ledger.op("positions_backward").bytes_written == 320);
}
