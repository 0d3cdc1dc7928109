// What programs may choose about MPI ranks, without MPI's own header.
//
// The bodies of mpi/ need <mpi.h>, and each MPI has its own. So yotta::compiled does not hold them:
// the compiled form has a file for each MPI (cmake/compiled/mpi/mpi.cpp), compiled with its paths.
#pragma once

#include <cstdint>
#include <limits>

namespace yotta {

struct MpiOptions {
  int64_t max_count = std::numeric_limits<int>::max();  // numbers in one call of MPI
  double patience = 1;             // seconds after which a waiting rank reports that it waits
  bool synchronous_sends = false;  // a send is done when its receiver takes it
  // Compares the calls of collectives as they start, for one control message per rank. Without it,
  // calls that differ are noticed when ranks wait too long.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

}  // namespace yotta
