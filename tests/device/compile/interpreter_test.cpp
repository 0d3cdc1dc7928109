#include "yotta/device/compile/interpreter.hpp"

#include "device/fusion_examples.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// One kernel of one input and one output.
struct Run {
  explicit Run(const Graph& captured) : graph(merge_equal(captured)) {
    kernel = kernels(graph, fuse(graph)).at(0);
    walk = walk_of(graph, kernel);
    lines = lines_of(graph, kernel, walk);
  }
  Moved run(Tensor& x, Tensor& y) const {
    return interpret(graph, walk, lines,
                     {{kernel.reads[0], x.data<float>()}, {kernel.writes[0], y.data<float>()}});
  }
  std::string message(Tensor& x) const {
    Tensor y = Tensor::zeros(x.shape());
    return message_of([&] { run(x, y); });
  }
  Graph graph;
  Kernel kernel;
  Walk walk;
  std::vector<Line> lines;
};

}  // namespace

TEST_CASE("lines compute what the operations compute, and move what the formula says") {
  for (const Shape& shape : {Shape{5, 40}, Shape{3, 17}, Shape{1, 9000}, Shape{4, 1}}) {
    Tensor x = uniform("x", shape);
    for (const auto& f : {softmax, masked_softmax, gelu}) {
      const Run run(capture(f, x));
      if (run.walk.space.columns > longest_row && run.walk.reduces) continue;
      if (kernels(run.graph, fuse(run.graph)).size() > 1) continue;
      Tensor y = Tensor::zeros(shape);
      const Moved moved = run.run(x, y);
      check_close(y, f(Array(x)).tensor());
      const OpCost cost = cost_of(run.graph, run.kernel);
      CHECK(4 * static_cast<double>(moved.loaded) == cost.bytes_read);
      CHECK(4 * static_cast<double>(moved.stored) == cost.bytes_written);
    }
  }
}

TEST_CASE("a value that is not there is named") {
  Tensor x = uniform("x", {4, 40});
  Run run(capture(softmax, x));
  const auto without = [&](LineStep step, int which) {
    Run other = run;
    for (size_t i = 0; i < other.lines.size(); ++i)
      if (other.lines[i].step == step && which-- == 0)
        other.lines.erase(other.lines.begin() + static_cast<std::ptrdiff_t>(i));
    return other.message(x);
  };
  CHECK(contains(without(LineStep::fold, 0), "a reduction has its value when its loop is over"));
  CHECK(contains(without(LineStep::recall, 0), "a loop's values end with the loop"));
  CHECK(contains(without(LineStep::save, 0), "is recalled, and was never saved"));
}
