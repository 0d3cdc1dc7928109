// What there is to run: the lessons of lessons/ and the benchmarks of bench/, found by number or
// name.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "course/options/edit_distance.hpp"

namespace runner {

// One thing a student can name on the command line.
struct Topic {
  std::string id;      // "10_collectives"; a benchmark's is its name, "matmul"
  std::string number;  // "10"; empty for a benchmark
  std::string name;    // "collectives"
  std::string title;   // the first line of its text
};

std::vector<Topic> find_lessons(const std::string& root);
std::vector<Topic> find_benchmarks(const std::string& root);

struct NoSuchTopic : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The topic called `word` (a number, a name or both: 10, collectives, 10_collectives).
// Throws NoSuchTopic that names the nearest one when there is none.
const Topic& choose(const std::vector<Topic>& topics, std::string_view word, std::string_view kind);

using yotta::edit_distance;

// Builds one target of the release build. Progress goes to standard error, so that a program's
// output can be piped; if there is nothing to build, nothing is said. 0: it is built.
int build(const std::string& target);

// The verbs. An empty name lists what there is; json, when given, receives the list as a file.
int lesson(const std::string& name, const std::vector<std::string>& arguments,
           const std::string& json);
int bench(const std::string& name, const std::vector<std::string>& arguments,
          const std::string& json);

}  // namespace runner
