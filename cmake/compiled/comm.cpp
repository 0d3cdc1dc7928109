// The bodies of comm/ but for its transports: the communicator, ranks that are threads, and
// who has started this process.
#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/comm/run_ranks.hpp"
