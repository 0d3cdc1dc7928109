// The bodies of comm/ about sharded matrices.
#include "yotta/comm/resharding.hpp"
#include "yotta/comm/sharded_matrices.hpp"
