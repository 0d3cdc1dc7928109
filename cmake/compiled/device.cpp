// The bodies of device/.
#include "yotta/device/kernel.hpp"
