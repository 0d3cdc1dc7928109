// What a check says of a student's file: to people on one screen, and all of it as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runner/compile_errors.hpp"
#include "runner/grade.hpp"

namespace runner {

// Of one task: the first `read` of its `of` hints.
struct HintsRead {
  std::string task;
  int read = 0, of = 0;
};

struct Verdict {
  std::string file;
  // If the file does not compile: of what compiles, of the last version that did, or no points.
  Grade grade;
  std::string compile_errors;           // as the compiler says them; empty: it compiles
  std::vector<PartErrors> part_errors;  // the same, by part
  std::vector<PartErrors> warnings;     // of a file that compiles
  std::string log;                      // all that the compiler said
  std::string refused;                  // why the file is not run at all; empty: it may run
  std::string marks;                    // what is wrong with the marks of a file with such errors
  std::vector<std::string> left_out;    // the tasks without which it compiles; empty: not known
  std::string kept_from;                // when the last version that compiled was graded
  std::optional<std::vector<HintsRead>> hints;  // none: nobody knows which were read
  double seconds = 0;

  bool compiled() const { return compile_errors.empty(); }
  bool complete() const { return compiled() && refused.empty() && grade.complete(); }
  bool solved(const std::string& task) const;  // empty: complete
};

struct Shown {
  std::string task = {};  // "10.3": only its cases; empty: all
  bool all = false;  // every failure, all that the compiler said and all that the program printed
  int lines = 40;    // at most, of some 120 characters, unless all is to be shown
};

// The tasks' table, the first message of each task that is not solved, the points; or the errors
// and the points that stay.
std::string verdict_text(const Exercise& exercise, const Verdict& verdict, const Shown& shown = {});
nlohmann::json verdict_json(const Exercise& exercise, const Verdict& verdict);

// A grade's tasks, to be kept for when the file does not compile, and back. Tasks are found by
// their ids; where one has other points now, it keeps its share. None: the exercise has none of
// those tasks.
nlohmann::json kept_tasks(const Grade& grade);
std::optional<Grade> grade_of_kept(const Exercise& exercise, const nlohmann::json& kept);

// Each line two blanks further in.
std::string indented(const std::string& text);

// Nothing of a task was run.
Grade no_points(const Exercise& exercise);

}  // namespace runner
