// MpiRanks: the processes that mpirun has started as ranks of run_ranks (process_ranks.hpp).
//
//     int main() {
//       MpiRanks ranks;                  MPI is started; from here on run_ranks uses it
//       run_ranks(ranks.size(), [](Communicator& world) { ... });
//     }                                  waits for the others, and ends MPI
//
// Without <mpi.h>, which mpicxx and CMake's MPI::MPI_CXX make known, this header is empty.
// docs/using.md has the line that builds such a program, and lessons/00_start/processes.cpp is one.
#pragma once

#if !defined(YOTTA_HAVE_MPI) && __has_include(<mpi.h>)
#define YOTTA_HAVE_MPI
#endif

#ifdef YOTTA_HAVE_MPI

#include "yotta/comm/mpi/mpi_options.hpp"
#include "yotta/comm/processes/process_ranks.hpp"

namespace yotta {

// "Open MPI v4.1.4"
std::string mpi_library();

struct MpiRanksOptions : ProcessRanksOptions {
  MpiOptions mpi = {};
};

class MpiRanks : public ProcessRanks {
 public:
  // Errors: MPI cannot be started for threads; mpirun is another MPI's than this program's.
  explicit MpiRanks(MpiRanksOptions options = {}, Where where = Where::current());
  ~MpiRanks() override;

 private:
  struct State;
  std::shared_ptr<Transport> make_transport(int n, const RunOptions& run) override;
  std::vector<std::string> all_gather(const std::string& mine) override;

  std::unique_ptr<State> state_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/mpi/impl/mpi_ranks.ipp"
#endif

#endif  // YOTTA_HAVE_MPI
