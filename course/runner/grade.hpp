// Grading: runs a program of graded cases, and survives whatever a student's code does to it.
//
// The program writes a record as it goes (course/shared/exercise_main.cpp), so a crash or an endless loop
// can be pinned on the case that was running. That case has failed; the program is started once more
// without it, so that one endless loop does not cost the points of the other tasks.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

// Whatever is to blame for no verdict, it is not the student's file.
struct CouldNotGrade : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How a program ended that ran with a time limit.
struct Ending {
  int status = 0;  // exit status
  int signal = 0;  // or the signal that ended it
  bool too_late = false;
  std::string output;  // standard output and error, at most the last 64 KiB
  bool well() const { return status == 0 && signal == 0 && !too_late; }
};
// Runs a command; after `seconds`, or when we are told to end (Ctrl-C), it and all its children are killed.
Ending run_limited(const std::vector<std::string>& command, double seconds);

// A failed case's message without what only its author knows: where it runs its ranks, and the file that puts the
// student's functions into its hands.
std::string in_plain_words(const std::string& text);

struct CaseResult {
  std::string
      name;  // "10.1: every rank ends with its chunk": the task's id stands before the colon
  bool passed = false;
  std::string message;  // why not
  std::string task() const { return name.substr(0, name.find(':')); }
};

struct TaskResult {
  Task task;
  int points = 0;  // all of the task's, or none
  int cases = 0, passed = 0;
};

struct Grade {
  std::vector<CaseResult> cases;
  std::vector<TaskResult> tasks;
  int points = 0, of = 0;
  bool complete() const { return points == of && of > 0; }
  const CaseResult* first_failed() const;
};

// A task gets its points if it has cases and all of them ran and passed. The record lies beside the program.
Grade grade(const Exercise& exercise, const std::string& program, double seconds = 5);

// The same for a student's program. Whoever loses points loses them to cases that the library's program passes here and
// now: else throws CouldNotGrade.
Grade fair_grade(const Exercise& exercise, const std::string& program,
                 const std::string& library_program, double seconds = 5);

}  // namespace runner
