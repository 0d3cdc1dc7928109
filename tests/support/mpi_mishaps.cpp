// A program in which one rank fails at a step of its run, for tests of what happens to the others:
//
//     mpirun -n 3 mpi_mishaps kill 1 2        rank 1 is killed at step 2
//     mpirun -n 3 mpi_mishaps throw 0 3       rank 0 throws at step 3
//     mpirun -n 3 mpi_mishaps leave 1 0       rank 1 exits when all is done, before MPI_Finalize
//     mpirun -n 3 mpi_mishaps orphan 2 0      rank 2 kills mpirun (or its proxy), and all wait
//                                             forever
//
// Every surviving process prints what run_ranks throws.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "support/longest_wait.hpp"
#include "yotta/comm/mpi/mpi_ranks.hpp"

namespace {

using namespace yotta;

struct Mishap {
  std::string kind;
  int rank, step;

  void strike(const Communicator& world, int now) const {
    if (world.rank() != rank || now != step) return;
    if (kind == "kill") kill(getpid(), SIGKILL);
    if (kind == "throw") fail(Where::current(), "the disk is full at step {}", now);
  }
};

// Limited, so that a test that fails leaves nothing behind.
void wait_orphaned(Communicator& world, int culprit) {
  alarm(static_cast<unsigned>(yotta_test::longest_wait));
  world.barrier();
  if (world.rank() == culprit) kill(find_launcher(), SIGKILL);
  for (;;) pause();
}

void steps(Communicator& world, const Mishap& mishap) {
  const int p = world.size(), next = (world.rank() + 1) % p, previous = (world.rank() + p - 1) % p;
  std::vector<float> x(100000, 1), y(x);
  if (mishap.kind == "orphan") wait_orphaned(world, mishap.rank);
  mishap.strike(world, 0);  // before anything
  world.send_recv(x, next, y, previous);
  mishap.strike(world, 1);
  world.all_reduce(x);
  Work work = world.all_reduce_async(x);
  mishap.strike(world, 2);  // in flight
  work.wait();
  Communicator pair = world.split(world.rank() == 0 ? 1 : 0, 0);
  mishap.strike(world, 3);
  pair.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
  pair.barrier();
  world.barrier();
  mishap.strike(world, 4);  // before the end
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const Mishap mishap{argv[1], std::atoi(argv[2]), std::atoi(argv[3])};
  MpiRanks ranks;
  try {
    run_ranks(ranks.size(), [&](Communicator& world) { steps(world, mishap); });
    if (mishap.kind == "leave" && ranks.rank() == mishap.rank) _exit(0);
    return 0;
  } catch (const std::exception& error) {
    const std::string line = fmt::format("process {}: {}\n", ranks.rank(), error.what());
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return 3;
    return 1;
  }
}
