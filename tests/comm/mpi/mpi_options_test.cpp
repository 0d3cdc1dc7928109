#include "yotta/comm/mpi/mpi_options.hpp"

#include <doctest/doctest.h>

using namespace yotta;

// Without MPI's header: this file is compiled where no MPI is.
TEST_CASE("who chooses nothing gets calls as large as MPI allows, and sends that MPI may buffer") {
  const MpiOptions options;
  CHECK(options.max_count == 2147483647);
  CHECK_FALSE(options.synchronous_sends);
  CHECK(options.patience == 1);
#ifdef NDEBUG
  CHECK_FALSE(options.compare_calls);
#else
  CHECK(options.compare_calls);
#endif
}
