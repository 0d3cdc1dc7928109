// `yotta test`: builds everything, runs it with ctest, and counts what became of every test case.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct SuiteOptions {
  std::string tier = "release";  // the folder of build/ to build and run
  std::string only;              // run only the tests whose names match this expression
  std::string json;              // write the counts to this file too
  bool long_form = false;        // also what takes long (yotta_long in tests/CMakeLists.txt)
};

// What became of one test case, or of one check that has no cases of its own.
struct Outcome {
  enum class Status { passed, failed, skipped };
  std::string test;  // the program: "test_core_tensor"
  std::string name;  // the case; empty for a check without cases
  Status status;
  std::string reason;  // why it failed (when not an assertion) or was not run
};

// Reads what ctest wrote (ctest.xml) and the records the test programs left beside it.
std::vector<Outcome> read_outcomes(const std::string& folder);

// Builds, runs, prints the closing summary; returns 0 only when nothing failed and something
// passed.
int test_everything(const SuiteOptions& options);

}  // namespace runner
