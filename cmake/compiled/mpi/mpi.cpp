// The bodies of comm/mpi/, compiled once for each MPI, with YOTTA_HAVE_MPI and that MPI's include
// paths. Link it beside yotta::compiled.
#define YOTTA_COMPILING_mpi 1
#include "yotta/comm/mpi/mpi_ranks.hpp"
