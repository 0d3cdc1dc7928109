// The bodies of comm/'s engine rooms for ranks that are processes: their supervision, TCP
// and NCCL's envelopes. (Those of MPI: mpi/mpi.cpp; NCCL itself is for nvcc: comm/nccl/nccl.hpp.)
#include "yotta/comm/nccl/impl/nccl_transport.ipp"
#include "yotta/comm/processes/impl/job_start.ipp"
#include "yotta/comm/processes/impl/process_ranks.ipp"
#include "yotta/comm/processes/impl/process_supervision.ipp"
#include "yotta/comm/processes/impl/rank_words.ipp"
#include "yotta/comm/tcp/impl/tcp_epochs.ipp"
#include "yotta/comm/tcp/impl/tcp_launch.ipp"
#include "yotta/comm/tcp/impl/tcp_ranks.ipp"
#include "yotta/comm/tcp/impl/tcp_starter.ipp"
#include "yotta/comm/tcp/impl/tcp_throttle.ipp"
#include "yotta/comm/tcp/impl/tcp_transport.ipp"
