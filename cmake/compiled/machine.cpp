// The bodies of machine/.
#include "yotta/machine/clock.hpp"
