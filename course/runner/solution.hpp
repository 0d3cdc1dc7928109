// Builds the program of graded cases on one student's file, in a folder of its own:
//
//     cases, main(), library ──► objects ─┐    by Ninja, once, under a lock
//                                         ├──► RUN/program
//     adapter, the student's file ──► RUN/solution.o    by us, at every check; both are vetted
//
// Ninja goes by time stamps, and has one place for each result. A student's file may be replaced by
// an older one, and several may be graded at once. So Ninja only says with which commands it would
// compile and link the target exercise_NN_topic_student; we run them with other places, whatever
// was built before.
#pragma once

#include <string>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/places.hpp"
#include "runner/process.hpp"
#include "runner/vet.hpp"

namespace runner {

using Words = std::vector<std::string>;

struct BuildCommands {
  Words compile, link;
};

// The words of a command as a shell reads them: blanks between them, quotation marks and
// backslashes undone.
Words shell_words(const std::string& command);

// Of the commands that Ninja lists for `program`, one a line: those that compile and link `object`,
// for the file `solution` and with their results in `folder`. Throws CouldNotGrade when they are
// not there.
BuildCommands commands_for(const std::string& listed, const std::string& object,
                           const std::string& program, const std::string& solution,
                           const std::string& folder);

// The compiled library that a program is linked with, of the words that link it. In a tree of
// `./yotta handout` it lies outside of the build.
Words archives_of(const Words& link);

// What a student's program is held against.
struct Grader {
  std::string library;                  // the program of graded cases on the library's own solution
  std::vector<std::string> by_nothing;  // see passed_by_nothing
};
// What is said of graded cases whose build ended like this.
std::string why_unbuilt(const Ending& ending);
// Up to date. Throws CouldNotGrade when it cannot be built: then the fault is not the student's.
Grader build_grader(const Exercise& exercise);

// Why no compiler can read the text, and what to do; empty: it can, for all that its bytes tell.
std::string wrong_encoding(const std::string& text);

// Can this build run a student's code under AddressSanitizer? Not where the compiler has none, and
// not in a sanitizer's tier.
bool can_instrument();

struct Built {
  std::string program;  // empty: it did not compile, or it was refused
  std::string log;      // of the compiler
  std::string refused;  // why: see course/runner/vet.hpp
};
// After build_grader. Text and object are vetted before they are linked. A text that does not
// compile is not refused, for a bracket too many looks like code in the wrong place; but lines for
// the preprocessor are judged before it is compiled. Under AddressSanitizer (exercise.asan) the
// object that was vetted is compiled once more, instrumented.
Built build_solution(const Exercise& exercise, const std::string& file, const RunFolder& folder);

}  // namespace runner
