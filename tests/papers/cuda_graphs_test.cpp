// Gray (2019), Getting Started with CUDA Graphs, NVIDIA Technical Blog: a kernel of 2.9 us, many
// times. The host's constants are fitted to these three figures.
#include <doctest/doctest.h>

#include "support/near.hpp"
#include "yotta/machine/launch_programs.hpp"

using namespace yotta;
using yotta_test::near;

namespace {

// Microseconds a kernel, of a thousand launched by a program without a framework.
double us_a_kernel(const std::vector<HostCall>& program) {
  Host host;
  host.framework = host.graph_launch = 0;
  return 1e6 * simulate(program, host).seconds / 1000;
}

}  // namespace

TEST_CASE(
    "CUDA graphs: 9.6 us with a synchronisation after each kernel, 3.8 without, 3.4 in a graph") {
  std::vector<HostCall> waiting;
  for (int i = 0; i < 1000; ++i) {
    waiting.push_back(kernel("k", 2.9e-6));
    waiting.push_back(synchronize());
  }
  const std::vector<HostCall> queued(1000, kernel("k", 2.9e-6));
  CHECK(us_a_kernel(waiting) == near(9.6).epsilon(1e-3));
  CHECK(us_a_kernel(queued) == near(3.8).epsilon(1e-3));
  CHECK(us_a_kernel({capture(queued, 0).launch}) == near(3.4).epsilon(1e-3));
}
