// For authors: `./yotta exercise verify NN --mutate` changes the functions that a student writes by
// one token or one statement at a time (mutants.hpp), and lists the changes that no case of their
// task notices.
//
//     function of a task ──► mutants ──► those that compile, 60 a program ──► its task's cases
//                                                                               │
//                                        noticed: a case fails, it crashes, or hangs
//                                        survives: a case is missing, or it changes nothing
//
// A survivor that changes nothing stands in exercise.json, under its task, with the reason:
//
//     "equivalent": {"if (n > 0) f(); => if (n >= 0) f();": "f() of no elements does nothing"}
#pragma once

#include <string>

namespace runner {

struct MutateOptions {
  std::string name;   // "11", or "11.3" for one task; empty: all exercises
  std::string json;   // a file that gets the results too
  std::string table;  // a file of Markdown whose table of exercises gets the rows
};
// 0 if in every exercise enough of the changes are noticed, and what exercise.json calls equivalent
// is there, and survives.
int mutate(const MutateOptions& options);

constexpr double enough_noticed = 0.97;

}  // namespace runner
