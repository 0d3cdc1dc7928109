#include "yotta/sharding/feed_forward_spreads.hpp"

#include <doctest/doctest.h>

#include "sharding/spreads/spread_cases.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr TorusLinks links{180e9, 1e-6};
constexpr FeedForwardSizes large{1 << 17, 8192, 32768, DType::bf16, 0};
constexpr int64_t weights = int64_t{2} * 8192 * 32768 * 2;  // bytes of W_in and W_out

std::vector<PlannedProduct> plans(size_t layout, const char* mesh,
                                  const FeedForwardSizes& sizes = large) {
  return feed_forward_plans(feed_forward_layouts[layout], sizes, parse_mesh(mesh), links);
}

std::vector<std::string> collectives(const std::vector<PlannedProduct>& products) {
  std::vector<std::string> all;
  for (const PlannedProduct& product : products) all.push_back(collectives_of(product));
  return all;
}

Tensor turned(const Tensor& x) {
  Tensor made = Tensor::empty({x.dim(1), x.dim(0)}, DType::f64);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); ++j)
      made.data<double>()[j * x.dim(0) + i] = x.data<double>()[i * x.dim(1) + j];
  return made;
}
ShardedMatrix turned(const ShardedMatrix& x) {
  return {turned(x.local), transposed(x.spread), {x.whole[1], x.whole[0]}};
}

}  // namespace

using Collectives = std::vector<std::string>;

TEST_CASE("data parallelism: nothing forward, an all_reduce of each gradient") {
  const auto products = plans(0, "X 8");
  CHECK(collectives(products) == Collectives{"nothing", "nothing", "nothing",
                                             "all_reduce dW_out over X", "nothing",
                                             "all_reduce dW_in over X"});
  CHECK(cost_of(products).bytes == 2 * weights * 7 / 8);
  CHECK(cost_of(products, 2).bytes == 0);
}

TEST_CASE("FSDP: two gathers and a reduce_scatter of each weight, 1.5 times as many bytes") {
  const auto products = plans(1, "X 8");
  CHECK(collectives(products) ==
        Collectives{"all_gather W_in over X", "all_gather W_out over X", "all_gather W_out' over X",
                    "reduce_scatter dW_out over X", "all_gather W_in' over X",
                    "reduce_scatter dW_in over X"});
  CHECK(cost_of(products).bytes == 3 * weights * 7 / 8);
}

TEST_CASE("tensor parallelism: Megatron's two all_reduces, one forward, one backward") {
  const auto products = plans(2, "Y 8");
  CHECK(collectives(products) == Collectives{"nothing", "all_reduce Out over Y", "nothing",
                                             "nothing", "all_reduce dIn over Y", "nothing"});
  CHECK(cost_of(products).bytes == 2 * (2 * large.B * large.D * 2 * 7 / 8));
}

TEST_CASE("the mixture: FSDP's over X, tensor parallelism's over Y, each of a part") {
  const auto products = plans(3, "X 4, Y 4");
  CHECK(collectives(products) ==
        Collectives{"all_gather W_in over X", "all_gather W_out over X, all_reduce Out over Y",
                    "all_gather W_out' over X", "reduce_scatter dW_out over X",
                    "all_gather W_in' over X, all_reduce dIn over Y",
                    "reduce_scatter dW_in over X"});
  CHECK(cost_of(products).bytes ==
        3 * (weights / 4) * 3 / 4 + 2 * (2 * (large.B / 4) * large.D * 2 * 3 / 4));
}

TEST_CASE("a small batch: the activations move, and the weights stay") {
  const auto products = plans(1, "X 8", {64, 8192, 32768, DType::bf16, 0});
  for (size_t i = 0; i < 6; ++i) {
    CAPTURE(collectives_of(products[i]));
    CHECK(collectives_of(products[i]).find("all_gather W") == std::string::npos);
  }
  CHECK(cost_of(products).bytes < 3 * weights * 7 / 8 / 20);
}

TEST_CASE("forward and backward with data equal the serial layer, sizes that do not divide") {
  const Tensor in = normal_numbers({5, 6}, "in"), d_out = normal_numbers({5, 6}, "d_out");
  const Tensor w_in = normal_numbers({6, 7}, "w_in"), w_out = normal_numbers({7, 6}, "w_out");
  const Tensor hidden = local_matmul(in, w_in), out = local_matmul(hidden, w_out);
  const Tensor d_hidden = local_matmul(d_out, turned(w_out));
  const Tensor dw_out = local_matmul(turned(hidden), d_out);
  const Tensor d_in = local_matmul(d_hidden, turned(w_in));
  const Tensor dw_in = local_matmul(turned(in), d_hidden);
  for (size_t layout = 0; layout < 4; ++layout)
    for (const char* text :
         {"X 1, Y 1", "X 2, Y 1", "X 1, Y 2", "X 3, Y 1", "X 2, Y 2", "X 4, Y 2", "X 1, Y 8"}) {
      const NamedMesh mesh = parse_mesh(text);
      const auto products = plans(layout, text, {5, 6, 7, DType::f64, 1e9});
      const auto reports = run_ranks(ranks_of(mesh), [&](Communicator& world) {
        AxisGroups groups(world, mesh);
        const auto part = [&](const Tensor& whole, const char* spread) {
          return cut(whole, parse_spread(spread, mesh), groups);
        };
        const FeedForwardLayout& spreads = feed_forward_layouts[layout];
        const ShardedMatrix x = part(in, spreads.in), dy = part(d_out, spreads.in);
        const ShardedMatrix a = part(w_in, spreads.w_in), b = part(w_out, spreads.w_out);
        const auto run = [&](size_t i, const ShardedMatrix& left, const ShardedMatrix& right,
                             const char* spread, const Tensor& expected) {
          const ShardedMatrix result = run_plan(products[i].plan, left, right, groups);
          check_part(result, parse_spread(spread, mesh), expected, groups);
          return result;
        };
        const ShardedMatrix h = run(0, x, a, spreads.hidden, hidden);
        run(1, h, b, spreads.in, out);
        const ShardedMatrix dh = run(2, dy, turned(b), spreads.hidden, d_hidden);
        run(3, turned(h), dy, spreads.w_out, dw_out);
        run(4, dh, turned(a), spreads.in, d_in);
        run(5, turned(x), dh, spreads.w_in, dw_in);
      });
      CHECK(static_cast<int>(reports.size()) == ranks_of(mesh));
    }
}
