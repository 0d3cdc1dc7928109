// Grading: runs a program of graded cases, and survives whatever a student's code does to it.
//
// The program sends a record as it goes (course/cases/record.hpp), so a crash or an endless loop
// can be pinned on the case that was running. That case has failed; the program is started once
// more without it, so that one endless loop does not cost the points of the other tasks. Only a
// record that is closed earns points.
//
// Where the program runs: course/runner/sandbox.hpp.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/process.hpp"
#include "runner/sandbox.hpp"

namespace runner {

// Whatever is to blame for no verdict, it is not the student's file.
struct CouldNotGrade : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Text from a student's program or file, for a terminal: each control character, which might clear
// the screen, is a "?".
std::string printable(std::string text);

// A case's name for doctest's filter, which takes a comma for the end of a name; ? stands for any
// character.
std::string pattern(std::string name);

// A failed case's message without what only its author knows: where it runs its ranks, and the file
// that puts the student's functions into its hands.
std::string in_plain_words(const std::string& text);

struct CaseResult {
  // "10.1: every rank ends with its chunk": the task's id stands before the colon.
  std::string name;
  bool passed = false;
  std::string message;  // why not
  int weight = 1;       // see Task
  // A file with empty parts passes it too: it counts when the others of its task have passed.
  bool needs_others = false;
  bool needs_mending = false;  // of another task: its message's first line says which
  std::string task() const { return name.substr(0, name.find(':')); }
};

// Is all that it says that a part is not written?
bool is_not_begun(const CaseResult& one);

struct TaskResult {
  Task task;
  int points = 0;  // by the weights of the cases that passed, rounded down
  int cases = 0, passed = 0;
  bool solved = false;          // every case that is no remark has passed
  int hint_points = 0;          // what hints took from its points
  std::string mend_first = {};  // the first task that it needs and that is not solved; empty: none
  // The tasks that it needs and that are not solved: it was judged with the library's parts of them
  // (course/runner/apart.hpp).
  std::vector<std::string> judged_with = {};
  bool not_apart = false;  // it should have been, and this tree has no parts of the library
};

struct Grade {
  std::vector<CaseResult> cases;
  std::vector<TaskResult> tasks;
  int points = 0, of = 0;
  std::string output = {};   // what the student's program printed, at most its last bytes
  std::string sandbox = {};  // the name of the wall behind which the program ran
  bool complete() const;     // every task is solved
  const CaseResult* first_failed() const;
  const CaseResult* first_failed(const std::string& task) const;  // remarks come last
};

// What the program could not do as a whole, beside its cases.
constexpr const char* whole_program = "the program";
// The message of a case that the library's program has and the student's did not come to.
constexpr const char* did_not_run = "it did not run";

// Each case earns its share of its task's points, by its weight; what a task has earned is rounded
// down, so only who passes all gets all.
Grade grade(const Exercise& exercise, const std::string& program, double seconds = 5,
            std::optional<Wall> wall = {});

// The strongest wall behind which this program, which is to be trusted, lists its cases. Found out
// once.
Wall wall_for(const std::string& program);

// The cases that the starter passes with empty parts.
std::vector<std::string> passed_by_nothing(const std::string& starter_program, double seconds = 5);

// The same as grade for a student's program. The cases that count are those of the library's
// program, each once: a student's file may hold others. Whoever loses points loses them to cases
// that the library's program passes here and now: else throws CouldNotGrade. `by_nothing` are the
// cases that need the others of their task.
Grade fair_grade(const Exercise& exercise, const std::string& program,
                 const std::string& library_program,
                 const std::vector<std::string>& by_nothing = {}, double seconds = 5);

// Takes the points of the hints that were read, by task, and never more than a task has earned.
void take_hint_points(const Exercise& exercise, const std::map<std::string, int>& hints_read,
                      Grade& grade);

}  // namespace runner
