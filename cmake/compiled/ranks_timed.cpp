// The bodies of comm/run_on.hpp: ranks on a clock.
#include "yotta/comm/impl/run_on.ipp"
