#include "yotta/device/compile/tiles.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("an operation on a tile, with neighbours and with one number for all") {
  const std::vector<double> a = {1, 2, 3, 4, 5, 6, 7, 8, 9}, two = {2};
  std::vector<double> out(10, -1);
  const Node divide{.op = Op::divide};
  compute_tile(divide, std::vector<Tile<double>>{{a.data(), 1}, {two.data(), 0}}, {}, 9,
               out.data());
  CHECK(out[8] == 4.5);
  CHECK(out[9] == -1);  // beyond the tile
  CHECK(reduce_tile(Op::row_max, Tile<double>{a.data(), 1}, 9) == 9);
  CHECK(reduce_tile(Op::row_sum, Tile<double>{two.data(), 0}, 9) == 18);
}

TEST_CASE("made nodes depend on where the tile begins") {
  std::vector<float> out(3);
  compute_tile(Node{.op = Op::row}, std::vector<Tile<float>>{}, {5, 2, 10}, 3, out.data());
  CHECK(out == std::vector<float>{5, 5, 5});
  compute_tile(Node{.op = Op::column}, std::vector<Tile<float>>{}, {5, 2, 10}, 3, out.data());
  CHECK(out == std::vector<float>{2, 3, 4});
}

TEST_CASE("whole tensors: rows and columns are repeated, products transposed") {
  const Tensor column = Tensor::from<float>({10, 20}, {2, 1});
  const Tensor row = Tensor::from<float>({1, 2, 3}, {1, 3});
  const auto run = [](Op op, Size size, const std::vector<Tensor>& in) {
    return run_node({.op = op, .size = size}, DType::f32, in, Where::current()).values();
  };
  CHECK(run(Op::add, {2, 3}, {column, row}) == std::vector<double>{11, 12, 13, 21, 22, 23});
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(run(Op::column_sum, {1, 3}, {x}) == std::vector<double>{5, 7, 9});
  CHECK(run(Op::row_sum, {2, 1}, {x}) == std::vector<double>{6, 15});
  CHECK(run(Op::matmul_nt, {2, 1}, {x, row}) == std::vector<double>{14, 32});
  CHECK(run(Op::matmul_tn, {3, 1}, {x, column}) == std::vector<double>{90, 120, 150});
  CHECK(contains(message_of([&] { run(Op::all_reduce, {2, 3}, {x}); }), "run_on_ranks"));
}
