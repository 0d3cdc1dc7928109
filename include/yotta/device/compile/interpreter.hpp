// A fused kernel without a compiler: its lines, executed one after the other on tiles of a row.
//
// Values stay in the cache, so most of what fusion saves is saved. It also checks what a compiler
// would: that each value is there when it is used, and that nothing from inside a loop is used
// behind it without being saved.
#pragma once

#include <map>

#include "yotta/device/compile/tiles.hpp"
#include "yotta/device/fusion_codegen.hpp"

namespace yotta {

// Numbers loaded and stored, of all tasks.
struct Moved {
  int64_t loaded = 0, stored = 0;
};

// Runs the lines of a kernel on the numbers at `memory`: where each value that it reads or writes
// lies, by its node. Errors: a line uses what is not there.
Moved interpret(const Graph& graph, const Walk& walk, const std::vector<Line>& lines,
                const std::map<int, void*>& memory, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/compile/impl/interpreter.ipp"
#endif
