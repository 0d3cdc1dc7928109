// The verb `check`: compiles a student's file, runs its graded cases and explains what failed first
// in each task.
#pragma once

#include <string>

namespace runner {

struct CheckOptions {
  std::string name;  // "10", "10.3", "collectives"; empty: everything that was begun
  std::string file;  // grade this file; the default is work/NN_topic/<header>
  // Write the verdict to this file too; "-": to standard output, and the rest to standard error.
  std::string json;
  std::string variant;  // the key of other numbers and sentences; empty: none
  // Show every failure, all that the compiler said and all that the program printed.
  bool verbose = false;
  int lines = 0;         // of the verdict, at most; 0: what fits on the terminal, and at least 40
  bool asan = false;     // under AddressSanitizer
  bool no_asan = false;  // not even where exercise.json asks for it, in a second look
  bool hint = false;     // show the next hint of the first open task instead
  bool afresh = false;   // keep the student's file under another name and start from the starter
};

// Returns 0 only when every point was earned (or what was asked for instead was done), 1 when not,
// and 3 when there is no verdict for a reason that lies outside of the student's file. Throws
// UsageError.
int check(const CheckOptions& options);

}  // namespace runner
