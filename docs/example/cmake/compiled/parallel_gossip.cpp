// The bodies of parallel/gossip.hpp.
#include "yotta/parallel/gossip.hpp"
