// The bodies of comm/mpi/, compiled once for each MPI, with YOTTA_HAVE_MPI and that MPI's include
// paths. Link it beside yotta::compiled.
#include "yotta/comm/mpi/impl/mpi_ranks.ipp"
