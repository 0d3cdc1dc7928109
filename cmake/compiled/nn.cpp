// The bodies of nn/.
#include "yotta/nn/linear.hpp"
