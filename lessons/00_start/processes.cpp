// The sum of four ranks that are processes: mpirun starts this program once for each.
//
//     mpirun -n 4 ./processes
//
// Without mpirun it is one process, and so one rank.
#include <fmt/format.h>

#include "yotta/comm/mpi/mpi_ranks.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

int main() {
  const MpiRanks processes;  // from here on, the ranks of run_ranks are MPI's processes
  run_ranks(processes.size(), [](Communicator& world) {
    std::vector<float> x = {static_cast<float>(world.rank())};
    world.all_reduce(x);
    if (world.rank() == 0) fmt::print("ranks: {}, sum: {}\n", world.size(), x[0]);
  });
}
