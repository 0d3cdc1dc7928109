// The bodies of comm/.
#include "yotta/comm/run_ranks.hpp"
