#include "yotta/device/compile/kernel_code.hpp"

#include <cstdlib>

#include "device/fusion_examples.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("without a compiler, lines are interpreted, and it is said once") {
  const Tensor x = uniform("x", {4, 40});
  const Graph graph = capture(softmax, x);
  const Launch launch = kernels(graph, fuse(graph));
  setenv("YOTTA_CXX", "no-such-compiler", 1);
  const std::string said = stderr_of([&] {
    for (int i = 0; i < 2; ++i) {
      const KernelCode code(graph, launch, true);
      CHECK_FALSE(code.is_compiled());
      ByNode<Tensor> values(graph);
      values[0] = x;
      values[graph.outputs[0]] = Tensor::empty({4, 40});
      code.run(graph, launch, values, Where::current());
      check_close(values[graph.outputs[0]], softmax(Array(x)).tensor());
    }
  });
  unsetenv("YOTTA_CXX");
  CHECK(said.find("no C++ compiler was found") != said.npos);
  CHECK(said.find("yotta:", 10) == said.npos);
}
