#include "yotta/device/fusion_codegen.hpp"

#include "device/fusion_examples.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

Kernel only_kernel(const Graph& graph) {
  const std::vector<Kernel> all = kernels(graph, fuse(graph));
  REQUIRE(all.size() == 1);
  return all[0];
}

std::string text(const Graph& graph, const std::vector<Line>& lines) {
  constexpr const char* names[] = {"load", "compute", "save", "recall", "reduce",
                                   "fold", "store",   "loop", "end"};
  std::string all;
  for (const Line& line : lines)
    all += fmt::format("{} {}\n", names[static_cast<int>(line.step)],
                       line.step >= LineStep::loop ? "" : info(graph.node(line.node).op).name);
  return all;
}

}  // namespace

TEST_CASE("softmax: three loops, and one load of its input") {
  const Graph graph = capture(softmax, uniform("x", {4, 40}));
  const Kernel kernel = only_kernel(graph);
  CHECK(text(graph, lines_of(graph, kernel, walk_of(graph, kernel))) ==
        "loop \nload input\nsave input\nreduce row_max\nend \nfold row_max\n"
        "loop \nrecall input\ncompute subtract\ncompute exp\nsave exp\nreduce row_sum\nend \n"
        "fold row_sum\n"
        "loop \nrecall exp\ncompute divide\nstore divide\nend \n");
}

TEST_CASE("what is one number a row is computed once a row") {
  const Graph graph =
      capture([](const Array& a) { return row_sum(a) / 40.0; }, uniform("x", {4, 40}));
  const Kernel kernel = only_kernel(graph);
  CHECK(text(graph, lines_of(graph, kernel, walk_of(graph, kernel))) ==
        "loop \nload input\nreduce row_sum\nend \nfold row_sum\ncompute number\ncompute divide\n"
        "store divide\n");
}

TEST_CASE("without rows that matter, the matrix is one long row") {
  const Tensor x = uniform("x", {4, 40}), b = uniform("b", {40});
  const auto is_flat_of = [](const Graph& graph) {
    return walk_of(graph, only_kernel(graph)).flat;
  };
  CHECK(is_flat_of(capture([](const Array& a) { return exp(a) * keep_mask(a, 0.1, 1, "d"); }, x)));
  CHECK_FALSE(is_flat_of(capture([](const Array& a, const Array& c) { return a + c; }, x, b)));
  CHECK_FALSE(is_flat_of(capture([](const Array& a) { return a * column_index(a); }, x)));
}

TEST_CASE("C++ and CUDA have the same lines") {
  const Graph graph = capture(masked_softmax, uniform("x", {4, 40}));
  const Launch launch = {only_kernel(graph)};
  for (const std::string& source : {print_cpu(graph, launch), print_cuda(graph, launch)})
    for (const char* line :
         {"const V v5 = choose(v3, v4, v0);",
          "a6 = larger(a6, among(v5, count, spread(-infinity())));", "const V v8 = exp_of(v7);",
          "store(a.out[0] + r * 40 + c, v10, count);"}) {
      CAPTURE(source);
      CHECK(source.find(line) != source.npos);
    }
}

TEST_CASE("a result takes the memory of what nobody reads any more") {
  const Tensor x = uniform("x", {8, 8});
  const auto reused = [](const Graph& graph) {
    const std::vector<Kernel> all = kernels(graph, fuse(graph));
    const ByNode<int> memory = reuse_memory(graph, one_launch_each(all));
    int count = 0;
    for (size_t n = 0; n < memory.size(); ++n)
      count += memory[static_cast<int>(n)] != static_cast<int>(n);
    return count;
  };
  // matmul, then exp: over the product.
  CHECK(reused(capture([](const Array& a) { return exp(matmul(a, a)); }, x)) == 1);
  // The argument is the caller's.
  CHECK(reused(capture([](const Array& a) { return exp(a); }, x)) == 0);
  // The product is read again, by the second matmul.
  CHECK(reused(capture(
            [](const Array& a) {
              const Array p = matmul(a, a);
              return matmul(exp(p), p);
            },
            x)) == 0);
  // The product is an output itself.
  CHECK(reused(capture_list(
            [](const std::vector<Array>& in) {
              const Array p = matmul(in[0], in[0]);
              return std::vector<Array>{exp(p), p};
            },
            {x})) == 0);
  // A row's number has no room for a row.
  CHECK(reused(capture([](const Array& a) { return row_sum(matmul(a, a)); }, x)) == 0);
}

TEST_CASE("a value is not written over what a later loop has yet to load") {
  const Tensor x = uniform("x", {8, 8});
  // y = exp(p) is stored in the first loop; q is loaded in the second.
  const Graph graph = capture_list(
      [](const std::vector<Array>& in) {
        const Array p = matmul(in[0], in[0]), q = matmul(p, in[0]);
        const Array e = exp(p);
        return std::vector<Array>{e, q * row_sum(e)};
      },
      {x});
  const std::vector<Kernel> all = kernels(graph, fuse(graph));
  const ByNode<int> memory = reuse_memory(graph, one_launch_each(all));
  const int e = graph.outputs[0], scaled = graph.outputs[1];
  CHECK(memory[e] != 2);  // q's
  CHECK(memory[scaled] == 2);
}

TEST_CASE("a value is not written over what another kernel of the launch reads") {
  const Tensor x = uniform("x", {8, 8});
  const Graph graph = capture_list(
      [](const std::vector<Array>& in) {
        const Array p = matmul(in[0], in[0]);
        return std::vector<Array>{softmax(p), exp(p) * 2};
      },
      {x});
  const std::vector<Kernel> all = kernels(graph, fuse(graph));
  REQUIRE(all.size() == 3);
  const auto taken = [&](const std::vector<Launch>& launches) {
    const ByNode<int> memory = reuse_memory(graph, launches);
    return std::count(memory.begin(), memory.end(), 1) - 1;  // besides the product itself
  };
  CHECK(taken(one_launch_each(all)) == 1);
  CHECK(taken(foreach (graph, all)) == 0);
}
