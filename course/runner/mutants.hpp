// Small changes of a solution, to find out whether an exercise's cases notice them: what a student
// may get wrong by one token or one statement.
//
//     for (int i = 0; i < p; ++i)        i <= p    0 + 1    break after the first
//       sum += part[i];                  sum = part[i]    part[i + 1]    no such line
//
// The changes are made on tokens, without knowing types, so not every one compiles.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct Mutant {
  std::string kind;           // "comparison"
  std::string before, after;  // the lines that change, with single blanks
  std::string text;           // the whole body with the change

  std::string name() const { return before + " => " + after; }
};

// Of the lines of a task's part.
std::vector<Mutant> mutants_of(const std::string& body);

}  // namespace runner
