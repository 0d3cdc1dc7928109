// One mistake costs its own points. A task that fails while it needs another one that is not solved
// is judged once more, in the student's file with the library's parts for those:
//
//     the student's 22.1 (wrong), 22.2, 22.3 ──► 22.1 of the library, 22.2, 22.3 of the student
//                                                 what 22.2 and 22.3 earn there counts
//
// One more compilation for all tasks that wait for the same ones; none where they are not begun.
//
// A tree that was handed out has no parts of the library: there the verdict says which tasks could
// not be judged so. Who grades what is handed in, with `./yotta grade` or an autograder, has them.
#pragma once

#include <string>
#include <vector>

#include "runner/grade.hpp"
#include "runner/solution.hpp"

namespace runner {

// The parts of a file that are not as its starter has them.
std::vector<std::string> begun_parts(const std::string& text, const std::string& starter);

// The tasks whose parts are to be the library's, so that a begun task may show what it is worth;
// empty: none waits.
std::vector<std::string> parts_to_lend(const Grade& grade, const std::vector<std::string>& begun);

// Begun tasks that wait for others, in a tree without the library's parts.
void mark_not_apart(const std::vector<std::string>& begun, Grade& grade);

// Changes the grade.
void judge_apart(const Exercise& exercise, const std::string& file, const Grader& grader,
                 const RunFolder& folder, Grade& grade);

}  // namespace runner
