// The bodies of comm/ about sharded matrices.
#include "yotta/comm/feed_forward_spreads.hpp"
#include "yotta/comm/matmul_plans.hpp"
#include "yotta/comm/resharding.hpp"
#include "yotta/comm/sharded_matrices.hpp"
