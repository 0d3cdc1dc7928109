// The bodies of comm/ that add numbers up: what a message brought, and what thread ranks read from
// each other.
#include "yotta/comm/data.hpp"
#include "yotta/comm/threads/native_collectives.hpp"
