// The bodies of comm/'s engine rooms for ranks that are processes: their supervision, TCP
// and NCCL's envelopes. (Those of MPI: mpi/mpi.cpp; NCCL itself is for nvcc: comm/nccl/nccl.hpp.)
#include "yotta/comm/nccl/nccl_transport.hpp"
#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/tcp/tcp_starter.hpp"
