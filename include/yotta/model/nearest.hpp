// What an error may suggest.
//
//     fail(where, "no such layout{}", nearest_of({{"dp 4", works(a)}, {"ep 2", works(b)}}));
//
//     "no such layout. Nearest: dp 4, or ep 2"     only of the ways that work
#pragma once

#include <string>
#include <vector>

#include "yotta/core/system/build.hpp"

namespace yotta {

struct Way {
  std::string words;
  bool works;
};

// ". Nearest: a, or b" of the ways that work; nothing if none does.
std::string nearest_of(const std::vector<Way>& ways);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/nearest.ipp"
#endif
