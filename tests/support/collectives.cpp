// Every algorithm of the collectives, compiled once for all test programs.
#undef YOTTA_COLLECTIVES_ELSEWHERE
#define YOTTA_COLLECTIVES_HERE
#include "yotta/comm/engine/algorithms.hpp"
