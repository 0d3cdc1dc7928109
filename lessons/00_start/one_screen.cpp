// Ranks: four of them hold a number each, and an all_reduce gives the sum to all.
// Here a rank is a thread. The same code runs on processes and on GPUs.
#include <fmt/format.h>

#include <vector>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

int main() {
  std::vector<float> sums(4);
  run_ranks(4, [&](Communicator& world) {
    std::vector<float> x = {static_cast<float>(world.rank())};
    world.all_reduce(x);
    sums[world.rank()] = x[0];
  });
  for (const float sum : sums)
    if (!(sum == 6)) {
      fmt::print("a rank has {}, but 0 + 1 + 2 + 3 is 6\n", sum);
      return 1;
    }
  fmt::print("all four ranks have the sum of their numbers: {}\n", sums[0]);
}
