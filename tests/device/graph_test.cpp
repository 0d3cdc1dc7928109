#include "yotta/device/graph.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {

// exp(a + b) * 2 for a (4, 8) and b (1, 8).
Graph example() {
  Graph graph;
  const int a = graph.add({.op = Op::input, .size = {4, 8}, .name = "a"});
  const int b = graph.add({.op = Op::input, .size = {1, 8}, .name = "b"});
  const int sum = graph.add({.op = Op::add, .in = {a, b}, .size = {4, 8}});
  const int e = graph.add({.op = Op::exp, .in = {sum}, .size = {4, 8}});
  const int two = graph.add({.op = Op::number, .number = 2});
  graph.outputs = {graph.add({.op = Op::multiply, .in = {e, two}, .size = {4, 8}})};
  return graph;
}

}  // namespace

TEST_CASE("a graph prints as the comment on its header shows it") {
  CHECK(print(example()) ==
        "  0  input      a              (4, 8)\n"
        "  1  input      b              (1, 8)\n"
        "  2  add        0 1            (4, 8)\n"
        "  3  exp        2              (4, 8)\n"
        "  4  number     2              (1, 1)\n"
        "  5  multiply   3 4            (4, 8)\n"
        "returns 5\n");
}

TEST_CASE("sizes of results: a side of 1 fits any other") {
  const Where where = Where::current();
  CHECK(result_size(Op::add, {{4, 8}, {1, 8}}, where) == Size{4, 8});
  CHECK(result_size(Op::add, {{4, 1}, {1, 8}}, where) == Size{4, 8});
  CHECK(result_size(Op::choose, {{4, 8}, {1, 1}, {4, 1}}, where) == Size{4, 8});
  CHECK(result_size(Op::row_max, {{4, 8}}, where) == Size{4, 1});
  CHECK(result_size(Op::column_sum, {{4, 8}}, where) == Size{1, 8});
  CHECK(result_size(Op::matmul, {{4, 8}, {8, 3}}, where) == Size{4, 3});
  CHECK(result_size(Op::matmul_tn, {{8, 4}, {8, 3}}, where) == Size{4, 3});
  CHECK(result_size(Op::matmul_nt, {{4, 8}, {3, 8}}, where) == Size{4, 3});
}

TEST_CASE("sizes that do not fit are named") {
  const Where where = Where::current();
  CHECK_THROWS_WITH_AS(result_size(Op::add, {{4, 8}, {4, 7}}, where),
                       doctest::Contains("add: (4, 8) and (4, 7) do not fit"), Error);
  CHECK_THROWS_WITH_AS(result_size(Op::matmul, {{4, 8}, {4, 7}}, where),
                       doctest::Contains("the inner sizes 8 and 4 differ"), Error);
}

TEST_CASE("FLOPs: one a number of the result, and of what a reduction reads") {
  Graph graph = example();
  CHECK(flops_of(graph, 2) == 32);
  CHECK(flops_of(graph, graph.add({.op = Op::row_sum, .in = {2}, .size = {4, 1}})) == 32);
  const int weight = graph.add({.op = Op::input, .size = {8, 5}});
  CHECK(flops_of(graph, graph.add({.op = Op::matmul, .in = {0, weight}, .size = {4, 5}})) ==
        2 * 4 * 8 * 5);
  CHECK(bytes_of(graph, 1) == 4 * 8);
}
