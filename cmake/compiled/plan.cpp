// The bodies of plan/.
#include "yotta/plan/mfu.hpp"
#include "yotta/plan/waterfall.hpp"
