// `./yotta autograder --exercises 10 --out FILE.zip`: what Gradescope's "Configure autograder"
// takes.
//
//     setup.sh          runs once, when Gradescope makes its image: unpacks the tree and builds the
//                       graders
//     run_autograder    runs for each submission: files in /autograder/submission ──►
//                       /autograder/results/results.json
//     yotta.tar.gz      this tree, as its last commit has it
//     VERSION           which commit that is
//
// AUTOGRADER_ROOT takes the place of /autograder, to try it elsewhere.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct AutograderOptions {
  std::vector<std::string> exercises;  // numbers or names
  std::string out;                     // the .zip
  std::string visibility = "visible";
  std::string variant;  // the key of `handout --variant`
  std::string json;     // what was written, for programs
};

// Exit status: 0, or 2 if the options are wrong.
int autograder(const AutograderOptions& options);

}  // namespace runner
