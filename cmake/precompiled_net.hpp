// The same for programs that are about the layouts of a transformer (yotta_quick_net in
// programs.cmake). The pages are plain C++, and each file that includes them would read them again.
#pragma once

#include "precompiled_programs.hpp"
#include "yotta/model/nd_parallel.hpp"
