// What a solution includes first when it is instrumented for AddressSanitizer and the library
// behind it is not: the library's headers must look as they do to the library, or a Fiber has other
// members here than there.
#pragma once

#include "yotta/core/system/build.hpp"

#undef YOTTA_ASAN
#define YOTTA_ASAN 0
