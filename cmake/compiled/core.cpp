// The bodies of core/.
#include "yotta/core/tensor.hpp"
