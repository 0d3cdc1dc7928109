// The bodies of sharding/.
#include "yotta/sharding/feed_forward_spreads.hpp"
#include "yotta/sharding/matmul_plans.hpp"
#include "yotta/sharding/resharding.hpp"
#include "yotta/sharding/sharded_matrices.hpp"
