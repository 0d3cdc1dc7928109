#include "yotta/device/graph_backward.hpp"

#include "device/fusion_examples.hpp"
#include "support/message_of.hpp"
#include "yotta/device/fused_program.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Function = std::vector<Array> (*)(const std::vector<Array>&);

// The sum over dy * output, and its derivative by finite differences, number by number.
void check_gradients(const char* what, Function f, const std::vector<Tensor>& in) {
  CAPTURE(what);
  const Graph graph = capture_list(f, in);
  const Joint joint = backward(graph, graph.outputs[0], graph.inputs());
  std::vector<Tensor> all = in;
  const Size size = graph.node(graph.outputs[0]).size;
  const Tensor dy = uniform("dy", {size.rows, size.columns}, DType::f64);
  all.push_back(dy);
  const std::vector<Tensor> got = run(joint.graph, all);
  const auto loss = [&](const std::vector<Tensor>& at) {
    double sum = 0;
    const std::vector<double> y = run(graph, at)[0].values(), d = dy.values();
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * d[i];
    return sum;
  };
  for (size_t k = 0; k < in.size(); ++k)
    for (int64_t i = 0; i < in[k].numel(); ++i) {
      std::vector<Tensor> more = in, less = in;
      more[k] = in[k].clone();
      less[k] = in[k].clone();
      more[k].data<double>()[i] += 1e-6;
      less[k].data<double>()[i] -= 1e-6;
      const double expected = (loss(more) - loss(less)) / 2e-6;
      CHECK(got[k + 1].values()[static_cast<size_t>(i)] ==
            doctest::Approx(expected).epsilon(1e-6).scale(1));
    }
}

Tensor numbers(const char* name, Shape shape) { return uniform(name, shape, DType::f64); }

// dropout(gelu(matmul(x, w) + b)) + x
std::vector<Array> block(const std::vector<Array>& in) {
  return {bias_gelu_dropout_residual(matmul(in[0], in[1]), in[2], in[0])};
}
std::vector<Tensor> block_input(DType dtype) {
  return {uniform("x", {6, 8}, dtype), uniform("w", {8, 8}, dtype), uniform("b", {8}, dtype)};
}

}  // namespace

TEST_CASE("each rule against finite differences") {
  const Tensor x = numbers("x", {3, 4}), y = numbers("y", {3, 4}), row = numbers("r", {1, 4}),
               column = numbers("c", {3, 1}), w = numbers("w", {4, 2}), v = numbers("v", {3, 2});
  using In = const std::vector<Array>&;
  using Out = std::vector<Array>;
  check_gradients("repeated rows and columns", [](In a) { return Out{a[0] * a[1] + a[2]}; },
                  {x, row, column});
  check_gradients("subtract, divide", [](In a) { return Out{(a[0] - a[1]) / (a[1] + 3.0)}; },
                  {x, y});
  check_gradients("exp, sqrt", [](In a) { return Out{sqrt(exp(a[0]) + 1.0)}; }, {x});
  check_gradients(
      "larger, choose",
      [](In a) { return Out{larger(a[0], a[1]) + choose(a[0] < 0.1, a[0] * a[0], a[1])}; }, {x, y});
  check_gradients("row_sum, row_max, column_sum",
                  [](In a) { return Out{row_sum(a[0] * a[0]) * row_max(a[0]) + column_sum(a[0])}; },
                  {x});
  check_gradients("matmul", [](In a) { return Out{matmul(a[0], a[1])}; }, {x, w});
  check_gradients("its transposes",
                  [](In a) { return Out{matmul_nt(matmul_tn(a[0], a[1]), a[2])}; }, {x, v, v});
  check_gradients("layernorm", [](In a) { return Out{layernorm(a[0], a[1], a[1])}; }, {x, row});
  check_gradients("masked softmax", [](In a) { return Out{masked_softmax(a[0])}; },
                  {numbers("s", {4, 4})});
  check_gradients("a block", block, block_input(DType::f64));
}

TEST_CASE("what has no gradient is said") {
  const Tensor x = numbers("x", {3, 4});
  const Graph other = capture_list(
      [](const std::vector<Array>& in) { return std::vector<Array>{exp(in[0])}; }, {x, x});
  CHECK(contains(message_of([&] { backward(other, other.outputs[0], {1}); }),
                 "does not depend on input x1"));
  const Graph reduced = capture([](const Array& a) { return all_reduce(a); }, x);
  CHECK(contains(message_of([&] { backward(reduced, reduced.outputs[0], {0}); }), "all_reduce"));
}

TEST_CASE("the cut keeps what no cheap operation gives back") {
  const std::vector<Tensor> in = block_input(DType::f32);
  const Graph graph = merge_equal(capture_list(block, in));
  const Joint joint = backward(graph, graph.outputs[0], graph.inputs());
  const std::vector<int> all = keep_all(joint), least = keep_least(joint);
  // x and w for the matmul's gradients; the product and b for the chain's.
  REQUIRE(least.size() == 4);
  CHECK(least[0] == 0);
  CHECK(least[1] == 1);
  CHECK(least[2] == 2);
  CHECK(graph.node(least[3]).op == Op::matmul);
  CHECK(kept_bytes(joint, least) == 4 * (2 * 6 * 8 + 8 * 8 + 8));
  CHECK(kept_bytes(joint, all) > 1.9 * kept_bytes(joint, least));
  // Softmax is computed again from its input, which is in memory anyway.
  const Graph soft = merge_equal(capture(softmax, in[0]));
  const Joint both = backward(soft, soft.outputs[0], soft.inputs());
  CHECK(keep_least(both) == std::vector<int>{0});
}

TEST_CASE("two halves compute what the joint graph computes, whatever is kept") {
  const std::vector<Tensor> in = block_input(DType::f32);
  const Graph graph = merge_equal(capture_list(block, in));
  const Joint joint = backward(graph, graph.outputs[0], graph.inputs());
  const Tensor dy = uniform("dy", {6, 8});
  std::vector<Tensor> with_dy = in;
  with_dy.push_back(dy);
  const std::vector<Tensor> expected = run(joint.graph, with_dy);
  double moved[2] = {};
  for (const bool least : {false, true}) {
    const Halves halves = split(joint, least ? keep_least(joint) : keep_all(joint));
    const FusedProgram forward(halves.forward, {.run_by = RunBy::interpreter});
    const FusedProgram back(halves.backward, {.run_by = RunBy::interpreter});
    std::vector<Tensor> outputs = forward(in), kept;
    check_close(outputs[0], expected[0]);
    size_t next = 1;
    for (const int n : halves.kept)
      kept.push_back(graph.node(n).op == Op::input ? in[static_cast<size_t>(n)] : outputs[next++]);
    kept.push_back(dy);
    const std::vector<Tensor> gradients = back(kept);
    for (size_t k = 0; k < gradients.size(); ++k) check_close(gradients[k], expected[k + 1], 1e-5);
    moved[least] = bytes_moved(forward.graph(), forward.kernels_in_order()) +
                   bytes_moved(back.graph(), back.kernels_in_order());
  }
  CHECK(moved[1] < moved[0]);
}

TEST_CASE("a sum's gradient needs nothing of what was added up") {
  const Tensor x = Tensor::full({2, 3}, -HUGE_VAL), dy = uniform("dy", {2, 1});
  const Graph graph = capture([](const Array& a) { return row_sum(a); }, x);
  const Joint joint = backward(graph, graph.outputs[0], graph.inputs());
  CHECK(keep_least(joint).empty());
  const Tensor dx = run(joint.graph, {x, dy})[1];
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t c = 0; c < 3; ++c) CHECK(dx.item({r, c}) == dy.item({r, 0}));
}
