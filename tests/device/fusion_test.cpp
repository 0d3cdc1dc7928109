#include "yotta/device/fusion.hpp"

#include "device/fusion_examples.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

std::vector<Kernel> fused(const Graph& graph) { return kernels(graph, fuse(graph)); }

double bytes(const Graph& graph) { return bytes_moved(graph, fused(graph)); }

// Bytes of running at once, as the ledger has them.
template <class F, class... In>
double eager_bytes(F f, const In&... in) {
  context().ledger.reset();
  f(Array(in)...);
  double bytes = 0;
  for (const auto& [name, count] : context().ledger.ops())
    bytes += count.bytes_read + count.bytes_written;
  return bytes;
}

}  // namespace

TEST_CASE("what no output needs is dropped, and equal expressions are computed once") {
  const Tensor x = uniform("x", {4, 8});
  const Graph graph = capture(
      [](const Array& a) {
        exp(a);  // needed by nobody
        return (a + 1.0) * (a + 1.0);
      },
      x);
  CHECK(graph.size() == 7);
  const Graph smaller = merge_equal(graph);
  CHECK(smaller.size() == 4);  // the input, 1, +, *
  check_close(run(smaller, {x})[0], run(graph, {x})[0], 0);
  const Graph drawn = capture(
      [](const Array& a) {
        return keep_mask(a, 0.5, 1, "p") + keep_mask(a, 0.5, 2, "p") + keep_mask(a, 0.5, 1, "q");
      },
      x);
  CHECK(merge_equal(drawn).size() == drawn.size());  // three different masks
}

TEST_CASE("an element-by-element chain is one kernel: inputs once, the output once") {
  const int64_t n = 16 * 64;
  const Tensor x = uniform("x", {16, 64}), b = uniform("b", {64}), r = uniform("r", {16, 64});
  const Graph graph = capture(bias_gelu_dropout_residual, x, b, r);
  REQUIRE(fused(graph).size() == 1);
  CHECK(bytes(graph) == 4 * (3 * n + 64));
  CHECK(eager_bytes(bias_gelu_dropout_residual, x, b, r) ==
        bytes_moved(graph, kernels(graph, one_kernel_each(graph))) +
            2 * 4 * n);  // the mask, written and read
}

TEST_CASE("softmax and layernorm are one kernel each, of two passes over memory") {
  const Tensor x = uniform("x", {16, 64}), g = uniform("g", {64}), b = uniform("b", {64});
  for (const Graph& graph : {capture(softmax, x), capture(masked_softmax, x)}) {
    REQUIRE(fused(graph).size() == 1);
    CHECK(bytes(graph) == 4 * 2 * 16 * 64);
  }
  const Graph norm = capture(layernorm, x, g, b);
  REQUIRE(fused(norm).size() == 1);
  CHECK(bytes(norm) == 4 * (2 * 16 * 64 + 2 * 64));
}

TEST_CASE("a row that no registers hold is reduced by a kernel of its own") {
  const Graph graph = capture(softmax, uniform("x", {2, longest_row + 1}));
  CHECK(fused(graph).size() == 4);  // the largest; exp; the sum; the division
}

TEST_CASE("matmuls and sums down columns stand alone") {
  const Tensor x = uniform("x", {8, 16}), w = uniform("w", {16, 4}), b = uniform("b", {4});
  const Graph graph =
      capture([](const Array& a, const Array& weight,
                 const Array& bias) { return column_sum(gelu(matmul(a * 2, weight) + bias)); },
              x, w, b);
  const std::vector<Kernel> all = fused(graph);
  REQUIRE(all.size() == 4);  // * 2; matmul; + gelu; the sum
  CHECK(all[1].nodes.size() == 1);
  CHECK(cost_of(graph, all[1]).flops == 2 * 8 * 16 * 4);
}

TEST_CASE("a value that another kernel reads is written, even if fused") {
  const Tensor x = uniform("x", {8, 16}), w = uniform("w", {16, 16});
  const Graph graph = capture(
      [](const Array& a, const Array& weight) {
        const Array e = exp(a);
        return e * 2 + matmul(e, weight);
      },
      x, w);
  // e * 2 could join exp or the last +. Both at once would be a circle around the matmul.
  const std::vector<Kernel> all = fused(graph);
  REQUIRE(all.size() == 3);
  CHECK(std::count(all[0].writes.begin(), all[0].writes.end(), 2) == 1);
  CHECK(all[1].reads == std::vector<int>{1, 2});
}

TEST_CASE("a path through a third kernel keeps two apart") {
  // exp -> matmul -> +, and exp -> + directly.
  const Tensor x = uniform("x", {4, 4});
  const Graph graph = capture([](const Array& a) { return exp(a) + matmul(exp(a), a); }, x);
  const Graph once = merge_equal(graph);
  const Owners owner = fuse(once);
  CHECK(leads_around(once, one_kernel_each(once), 1, 3));
  CHECK(owner[1] != owner[3]);
  CHECK(fused(once).size() == 3);
}

TEST_CASE("sizes decide whether one walk can do both") {
  const auto shape = [](int64_t rows, int64_t columns, bool reduces = false) {
    return KernelShape{{rows, columns}, false, reduces};
  };
  CHECK(same_walk(shape(4, 8), shape(4, 8)));
  CHECK(same_walk(shape(4, 8), shape(4, 1)));
  CHECK(same_walk(shape(4, 8, true), shape(4, 1)));
  CHECK_FALSE(same_walk(shape(4, 8), shape(4, 1, true)));  // a sum over one column, not over eight
  CHECK_FALSE(same_walk(shape(4, 8), shape(1, 8)));        // or each row would compute it again
  CHECK_FALSE(same_walk(shape(4, 8), shape(8, 8)));
  CHECK_FALSE(same_walk({{4, 8}, true, false}, shape(4, 8)));
}

TEST_CASE("foreach: an optimizer's step on all parameters is one launch") {
  std::vector<Tensor> in;
  for (const char* kind : {"w", "g", "m", "v"})
    for (const Shape& shape : {Shape{8, 16}, Shape{16}, Shape{3, 5}})
      in.push_back(uniform(kind, shape));
  const Graph graph = merge_equal(capture_list(adamw, in));
  const std::vector<Kernel> all = fused(graph);
  CHECK(all.size() == 3);
  const std::vector<Launch> launches = foreach (graph, all);
  REQUIRE(launches.size() == 1);
  CHECK(bytes_moved(graph, all) == 28 * (8 * 16 + 16 + 3 * 5));  // nn/adamw.hpp says 28
  const Graph chain = capture([](const Array& a) { return column_sum(exp(a)) * 2; }, in[0]);
  CHECK(foreach (chain, fused(chain)).size() == 3);  // each needs the one before
  const Graph rows = capture(softmax, uniform("x", {2, longest_row + 1}));
  CHECK(foreach (rows, fused(rows)).size() == 4);  // so it is without what stands alone
  const Graph apart = capture_list(
      [](const std::vector<Array>& x) {
        return std::vector<Array>{exp(x[0]), column_sum(x[0])};
      },
      {in[0]});
  CHECK(foreach (apart, fused(apart)).size() == 2);  // a library's call is a launch of its own
}
