// The verbs `list`, `hint` and `reset`.
#pragma once

#include <string>

#include "runner/exercise.hpp"

namespace runner {

// All exercises, or those that have a word in their number, name or title; with what was earned.
// `json`: see JsonOutput.
int list_exercises(const std::string& word, const std::string& json);

// The next hint of a task ("10.3"), or of the first open task of an exercise ("10"), and those
// before it.
int hint(const std::string& name);
// Where the solution of an exercise stands; empty: not here.
std::string where_the_solution_is(const Exercise& exercise);

// The starter again; the student's file is kept beside it. Asks at a terminal, unless `yes`.
int reset(const std::string& name, bool yes);

}  // namespace runner
