// The bodies of comm/ but for its transports: the communicator and ranks that are threads.
#include "yotta/comm/run_ranks.hpp"
