// The bodies of parallel/.
#include "yotta/parallel/ddp.hpp"
