// For authors: `./yotta exercise verify [NN]` proves that an exercise is fair.
//
// The proofs are the cases of tests/course/exercise_proof.cpp, the same that the suite runs: the
// starter is a fresh cut and fails every case, the library earns all points, each wrong solution is
// rejected by its case with its words, each right one earns all points, hints and statement are in
// order. This builds the exercise's programs and runs them, one proof per line.
#pragma once

#include <string>
#include <vector>

namespace runner {

// Names of doctest's cases, from what a program says to --list-test-cases.
std::vector<std::string> listed_cases(const std::string& output);

// Of the exercise with this number or name; of all if it is empty. `json`: a file that gets the
// proofs too, or none. Returns 0 if every proof holds.
int verify(const std::string& name, const std::string& json);

}  // namespace runner
