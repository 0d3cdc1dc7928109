// The bodies of device/: of its unchecked build, and of what both builds share.
#include "yotta/device/atomics.hpp"
#include "yotta/device/cp_async.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/kernel.hpp"
#include "yotta/device/ldmatrix.hpp"
#include "yotta/device/mma.hpp"
#include "yotta/device/profile.hpp"
