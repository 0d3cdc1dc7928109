// Notebooks without Jupyter: their code cells, run in two ways that must print the same.
//
//     natively     all cells joined into one file, compiled by clang++-19 with the extensions for
//                  top-level statements; also under AddressSanitizer
//     by the REPL  cell by cell in clang-repl, the engine of the xeus-cpp kernel
//
// After each cell a sentinel is printed. clang-repl goes on after an error and ends well all the
// same, so only the sentinels and an empty error log tell that a notebook ran.
#pragma once

#include <string>
#include <vector>

#include "runner/notebook.hpp"

namespace runner {

struct NotebookRun {
  std::vector<CellRun> cells;  // those that came to their end
  std::string error;           // empty: all did
};

struct NotebookTools {
  std::string folder;                  // for files on the way
  std::vector<std::string> flags;      // for the compiler: -I..., -O1
  std::vector<std::string> libraries;  // -l..., to link natively
  std::string repl = "clang-repl-19";
  double seconds = 200;  // for each program
};
// The flags of notebooks, for a project at `root`: its include folders and, if it is there, its
// compiled library (libyotta_notebook.so in a build folder), behind which a cell compiles only what
// is its own.
std::vector<std::string> notebook_flags(const std::string& root, const std::string& library);

NotebookRun run_natively(const std::vector<CodeCell>& cells, const NotebookTools& tools);
NotebookRun run_in_repl(const std::vector<CodeCell>& cells, const NotebookTools& tools);

}  // namespace runner
