// A plan as people read it: the best as a table, memory against time as a picture, why others lose.
#pragma once

#include <string>

#include "yotta/plan/planner.hpp"

namespace yotta {

// The best, one line each.
std::string best_text(const Plan& plan);

// What the best layout's smallest products reach, if that is far below what large ones do; where
// the bytes of one layout are.
std::string pieces_text(const Plan& plan);
std::string memory_text(const MemoryParts& memory);

// Memory against time: on the frontier #, among the best o, other meshes' best layouts a dot.
std::string plan_picture(const Plan& plan);

// `lines` lines for meshes that fit and are slower, and as many for those that are refused.
std::string losers_text(const Plan& plan, size_t lines);

}  // namespace yotta
