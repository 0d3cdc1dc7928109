// The file that a student works on: copied from the starter, kept when it is replaced.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

// What was asked for does not exist or makes no sense: the exit status is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
constexpr int usage_error = 2;

// "10" or "10.3" or "collectives": an exercise, and one of its tasks or none. Throws UsageError
// that names the nearest.
struct Chosen {
  Exercise exercise;
  std::string task;  // "10.3"; empty: all
};
Chosen choose_exercise(const std::string& name);

std::vector<Exercise> all_exercises();

// Was it begun: is there a file that is not the starter as it was copied?
bool begun(const Exercise& exercise);

// The student's own file. Copied from the starter the first time, and again as long as it was not
// touched.
std::string student_file(const Exercise& exercise);
// The same from the starter again; what was there is kept under another name.
std::string start_again(const Exercise& exercise);

bool is_own(const Exercise& exercise, const std::string& file);

}  // namespace runner
