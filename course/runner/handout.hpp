// `./yotta handout --exercises 10,13,18 --out DIR`: the course for students, without the answers to
// these exercises.
//
// Copied: the library's headers, lessons, programs, these exercises with their cases and hints.
// Left out: all solutions, tests, benchmarks, notebooks, history, work. The headers that hold
// answers are cut (handout_header.hpp); the library comes compiled, so that everything else builds
// and runs. Before it ends, it looks for answers in what it has written.
#pragma once

#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

struct HandoutOptions {
  std::vector<std::string> exercises;  // numbers or names
  std::string out;                     // a folder that is not there yet, or empty
  std::string variant;                 // a key: its sentences are in the statements
  std::string json;                    // what was made, for programs
  bool native = false;                 // the library of build/release, for machines like this one
  bool check = true;                   // build the tree, and grade its starters
};

// Exit status: 0, 1 if the tree is no good, 2 if the options are wrong.
int handout(const HandoutOptions& options);

// Copies what students may read of an exercise into the tree `out`: its solution, wrong and other
// right solutions stay behind, and exercise.json names none of them.
void copy_exercise(const Exercise& exercise, const std::string& out);

// A part of an exercise, as lines without blanks around them, comments and what is too short to
// tell.
struct Answer {
  std::string part;
  std::vector<std::string> lines;
};
std::vector<Answer> answers_in(const std::string& header);
// All parts of an exercise. Where a starter holds a mistake to be mended, only what it does not
// hold is an answer.
std::vector<Answer> answers_of(const Exercise& exercise);
// Where lines of an answer stand in a text.
struct AnswerFound {
  std::string part;
  size_t line = 0;  // from 0
};
// Two lines of an answer, one after the other; or one that is no loop's head. `common`, sorted:
// lines that stand elsewhere in the course too, and tell nothing when they stand alone.
std::vector<AnswerFound> answers_found(const std::vector<Answer>& answers, const std::string& text,
                                       const std::vector<std::string>& common);
// A text whose blocks of code that hold an answer say so instead. `found`: the lines of answers in
// it.
std::string without_answers(const std::string& markdown, const std::vector<AnswerFound>& found);

}  // namespace runner
