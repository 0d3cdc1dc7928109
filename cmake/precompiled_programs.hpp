// What nearly every program of the course includes, precompiled (yotta_quick in programs.cmake):
// the standard library, {fmt}, and of Yotta what declares tensors and ranks.
#pragma once

#include "compiled/precompiled.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
