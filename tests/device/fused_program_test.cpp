#include "yotta/device/fused_program.hpp"

#include "device/fusion_examples.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// What was charged, in all.
OpCount charged() {
  OpCount all;
  for (const auto& [name, count] : context().ledger.ops()) {
    all.calls += count.calls;
    all.bytes_read += count.bytes_read;
    all.bytes_written += count.bytes_written;
  }
  return all;
}

// A two-layer net: kernels, matmuls, a mean.
std::vector<Array> net(const std::vector<Array>& in) {
  const Array y = matmul(gelu(matmul(in[0], in[1]) + in[2]), in[3]);
  return {softmax(y), row_sum(column_sum(y * y)) / static_cast<double>(y.size().count())};
}
std::vector<Tensor> net_input(int64_t rows) {
  return {uniform("x", {rows, 24}), uniform("w", {24, 40}), uniform("b", {40}),
          uniform("v", {40, 24})};
}
std::vector<Tensor> at_once(const std::vector<Tensor>& in) {
  std::vector<Array> arrays;
  for (const Tensor& each : in) arrays.push_back(Array(each));
  std::vector<Tensor> out;
  for (const Array& each : net(arrays)) out.push_back(each.tensor());
  return out;
}

}  // namespace

TEST_CASE("compiled, interpreted or one by one, with and without reuse: the same numbers") {
  const std::vector<Tensor> in = net_input(33);
  const std::vector<Tensor> expected = at_once(in);
  const Graph graph = capture_list(net, in);
  for (const FusionOptions& options :
       {FusionOptions{}, FusionOptions{.reuse = false}, FusionOptions{.run_by = RunBy::interpreter},
        FusionOptions{.run_by = RunBy::interpreter, .fuse = false}}) {
    const FusedProgram program(graph, options);
    for (int step = 0; step < 2; ++step) {
      const std::vector<Tensor> got = program(in);
      check_close(got[0], expected[0]);
      check_close(got[1], expected[1]);
    }
  }
}

TEST_CASE("all examples, compiled, in f32 and f64") {
  if (compiler_here().compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = uniform("x", {7, 45}, dtype), b = uniform("b", {45}, dtype),
                 r = uniform("r", {7, 45}, dtype);
    const Graph graph = capture_list(
        [](const std::vector<Array>& in) {
          return std::vector<Array>{bias_gelu_dropout_residual(in[0], in[1], in[2]),
                                    layernorm(in[0], in[1], in[1]), masked_softmax(in[0])};
        },
        {x, b, r});
    const FusedProgram program(graph);
    CHECK(program.launches().size() == 1);
    const std::vector<Tensor> got = program({x, b, r}), expected = run(graph, {x, b, r});
    const double tolerance = dtype == DType::f32 ? 2e-6 : 1e-14;
    for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], tolerance);
  }
}

TEST_CASE("the ledger has what the formula says") {
  const std::vector<Tensor> in = net_input(16);
  const FusedProgram program(capture_list(net, in), {.run_by = RunBy::interpreter});
  context().ledger.reset();
  program(in);
  const OpCount all = charged();
  CHECK(all.bytes_read + all.bytes_written ==
        bytes_moved(program.graph(), program.kernels_in_order()));
  CHECK(all.calls == std::ssize(program.launches()));
}

TEST_CASE("AdamW on all parameters is one launch") {
  std::vector<Tensor> in;
  for (const char* kind : {"w", "g", "m", "v"})
    for (const Shape& shape : {Shape{8, 16}, Shape{16}, Shape{3, 5}}) {
      in.push_back(uniform(kind, shape));
      if (*kind == 'v') in.back() = Array(Array(in.back()) * Array(in.back())).tensor();
    }
  const Graph graph = capture_list(adamw, in);
  const FusedProgram program(graph);
  REQUIRE(program.launches().size() == 1);
  const std::vector<Tensor> got = program(in), expected = run(graph, in);
  for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i]);
}

TEST_CASE("reused memory: fewer allocations, and arguments stay as they are") {
  const std::vector<Tensor> in = net_input(8);
  const std::vector<double> before = in[0].values();
  const Graph graph = capture_list(net, in);
  const FusedProgram reusing(graph), fresh(graph, {.reuse = false});
  CHECK(reusing.allocations() == fresh.allocations() - 1);  // gelu's result over the product
  reusing(in);
  CHECK(in[0].values() == before);
}

TEST_CASE("a function is captured once for each size") {
  CompiledFunction f(net, {.run_by = RunBy::interpreter});
  for (const int64_t rows : {4, 8, 4, 8})
    check_close(f(net_input(rows))[0], at_once(net_input(rows))[0]);
  CHECK(f.programs().size() == 2);
}
