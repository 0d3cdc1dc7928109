// The bodies of comm/'s engine rooms for ranks that are processes: their supervision, and TCP. (Those of MPI: mpi/mpi.cpp.)
#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/tcp/tcp_ranks.hpp"
