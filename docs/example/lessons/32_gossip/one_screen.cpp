// Gossip: eight ranks in a ring come to agree on a mean, and each talks to its two neighbours only.
// A round leaves at most 0.81 of the differences, so twenty rounds leave little.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/gossip.hpp"

using namespace yotta;

int main() {
  std::vector<double> values(8);
  run_ranks(8, [&](Communicator& ring) {
    Tensor x = Tensor::full({1}, ring.rank() == 0 ? 8 : 0);  // the mean of all is 1
    gossip(x, ring, 20);
    values[ring.rank()] = x.item({0});
  });
  fmt::print("after 20 rounds rank 0 has {:.3f}, rank 4 {:.3f}\n", values[0], values[4]);
  for (const double value : values)
    if (!(std::abs(value - 1) < 8 * std::pow(gossip_factor(8), 20))) {
      fmt::print("a rank has {}, too far from the mean of 1\n", value);
      return 1;
    }
}
