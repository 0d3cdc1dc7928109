#include "yotta/device/fused_program.hpp"

#include <random>

#include "device/fusion_examples.hpp"
#include "support/not_run.hpp"
#include "yotta/core/compare.hpp"

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

// A random function of arrays (R, C), (1, C), (R, 1) and (1, 1), whose results stay small.
struct RandomFunction {
  unsigned seed;

  std::vector<Array> operator()(const std::vector<Array>& in) const {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    std::vector<Array> values = in;
    for (size_t i = 0, count = 3 + below(14); i < count; ++i) {
      const Array a = values[below(values.size())], b = values[below(values.size())];
      values.push_back(one(below(12), a, b, in[below(4)]));
    }
    std::vector<Array> out;
    for (size_t i = 0, count = 1 + below(3); i < count; ++i)
      out.push_back(values[values.size() - 1 - below(4)]);
    return out;
  }

 private:
  static Array one(size_t which, const Array& a, const Array& b, const Array& argument) {
    switch (which) {
      case 0: return a + b;
      case 1: return a - b * 0.5;
      case 2: return a * b;
      case 3: return a / (b * b + 1.0);
      case 4: return larger(a, b);
      case 5: return choose(argument < 0.1, a, b);
      case 6: return exp(a * a * -0.5);
      case 7: return row_sum(a) / static_cast<double>(a.size().columns);
      case 8: return row_max(a);
      case 9: return column_sum(a) / static_cast<double>(a.size().rows);
      case 10: return row_index(a) * 0.1 + column_index(b);
      default: return keep_mask(a, 0.4, 3, "drop");
    }
  }
};

void check_random_function(unsigned seed, RunBy run_by) {
  CAPTURE(seed);
  const int64_t rows[] = {1, 2, 5, 17}, columns[] = {1, 5, 17, 48, 5000};
  const int64_t R = rows[seed % 4], C = columns[seed / 4 % 5];
  const auto input = [](const char* name, int64_t r, int64_t c) {
    return uniform(name, {r, c}, DType::f64);
  };
  const std::vector<Tensor> in = {input("x", R, C), input("b", 1, C), input("m", R, 1),
                                  input("s", 1, 1)};
  const Graph graph = capture_list(RandomFunction{seed}, in);
  const std::vector<Tensor> expected = run(graph, in);
  const std::vector<Tensor> got = FusedProgram(graph, {.run_by = run_by})(in);
  for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], 1e-10);
}

}  // namespace

TEST_CASE("random functions: fused is what one operation at a time gives") {
  for (unsigned seed = 0; seed < (long_form() ? 3000 : 300); ++seed)
    check_random_function(seed, RunBy::interpreter);
  if (compiler_here().compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  for (const unsigned seed : {10, 32, 42, 64}) check_random_function(seed, RunBy::compiler);
}
TEST_CASE("random functions, compiled" * doctest::test_suite("long")) {
  if (compiler_here().compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  for (unsigned seed = 0; seed < 100; ++seed) check_random_function(seed, RunBy::compiler);
}

TEST_CASE("constants that are no ordinary numbers, and an array of no dims") {
  const Tensor x = uniform("x", {2, 3}), one = Tensor::full({}, 1);
  const Graph graph = capture_list(
      [](const std::vector<Array>& in) {
        return std::vector<Array>{in[0] * 0.0 + in[0] * std::nan(""), in[1] * HUGE_VAL,
                                  1.0 / (in[1] * -0.0) + in[1] / (in[1] * 0.0)};
      },
      {x, one});
  for (const RunBy by : {RunBy::interpreter, RunBy::compiler}) {
    const std::vector<Tensor> got = FusedProgram(graph, {.run_by = by})({x, one});
    CHECK(std::isnan(got[0].item({1, 2})));
    CHECK(got[1].item({0, 0}) == HUGE_VAL);
    CHECK(std::isnan(got[2].item({0, 0})));  // -inf + inf: 0 and -0 are two constants
  }
}

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

TEST_CASE("a later loop does not load an input that an earlier one has written over") {
  if (compiler_here().compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  const Tensor x = uniform("x", {16, 16});
  const FusedProgram program(capture_list(
      [](const std::vector<Array>& in) {
        const Array product = matmul(in[0], in[0]);  // nobody's but the next kernel's
        const Array twice = product * 2.0;           // takes its memory
        return std::vector<Array>{twice, exp(product - row_max(twice))};
      },
      {x}));
  REQUIRE(program.allocations() == 2);
  const std::vector<Tensor> got = program({x}), expected = run(program.graph(), {x});
  for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], 2e-6);
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

TEST_CASE("gelu, bias, dropout, residual: by the ledger each input once and the result once") {
  const Tensor x = uniform("x", {16, 64}), b = uniform("b", {64}), r = uniform("r", {16, 64});
  const FusedProgram program(capture(bias_gelu_dropout_residual, x, b, r),
                             {.run_by = RunBy::interpreter});
  context().ledger.reset();
  program({x, b, r});
  const OpCount all = charged();
  CHECK(all.calls == 1);
  CHECK(all.bytes_read == 4 * (2 * 16 * 64 + 64));
  CHECK(all.bytes_written == 4 * 16 * 64);
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

TEST_CASE("results of 36 MB are stored past the caches, aligned or not") {
  const Tensor x = uniform("x", {3000, 3000}), b = uniform("b", {3000});
  const auto chain = [](const std::vector<Array>& in) {
    return std::vector<Array>{in[0] * 2 + 1.0, in[0] + in[1]};
  };
  const Graph graph = merge_equal(capture_list(chain, {x, b}));
  CHECK(print_cpu(graph, {kernels(graph, fuse(graph))[0]}).find("  stream(") != std::string::npos);
  const std::vector<Tensor> fused = FusedProgram(graph)({x, b});
  const std::vector<Array> one_by_one = chain({Array(x), Array(b)});
  for (size_t i = 0; i < 2; ++i) CHECK(compare(fused[i], one_by_one[i].tensor(), 1e-6));
}

TEST_CASE("what all tasks of a row read is not written over by one of them") {
  const Tensor x = uniform("x", {3, 20000}), v = uniform("v", {20000, 1});
  const Graph graph = capture_list(
      [](const std::vector<Array>& in) {
        const Array t = matmul(in[0], in[1]) * 2 + 1;  // a number a row; the product is read once
        return std::vector<Array>{in[0] * t, t};
      },
      {x, v});
  const FusedProgram program(graph, {.run_by = RunBy::interpreter});
  CHECK(program.allocations() == 3);
  check_close(program({x, v})[0], run(graph, {x, v})[0], 1e-5);
}
