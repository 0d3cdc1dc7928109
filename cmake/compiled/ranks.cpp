// The bodies of comm/ that run ranks: the communicator, ranks that are threads, and who has
// started this process.
#include "yotta/comm/impl/communicator.ipp"
#include "yotta/comm/engine/impl/transport.ipp"
#include "yotta/comm/processes/impl/launch_environment.ipp"
#include "yotta/comm/impl/run_ranks.ipp"
#include "yotta/comm/threads/impl/thread_transport.ipp"
#include "yotta/comm/impl/work.ipp"
