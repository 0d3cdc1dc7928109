// Notebooks without Jupyter: the code cells of an .ipynb, run in two ways that must print the same.
//
//     natively    all cells joined into one file, compiled by clang++-19 with the extensions for top-level
//                 statements; also under AddressSanitizer
//     by the REPL cell by cell in clang-repl-19, the engine of the xeus-cpp kernel
//
// After each cell a sentinel is printed. clang-repl goes on after an error and ends well all the same, so
// only the sentinels and an empty error log tell that a notebook ran.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct CellRun {
  int cell = 0;        // counted from 1 over all cells, as Jupyter shows them
  std::string output;  // what it printed
};

struct NotebookRun {
  std::vector<CellRun> cells;  // those that came to their end
  std::string error;           // empty: all did
};

// Sources of the code cells, by number of the cell. Throws std::runtime_error if it is no notebook.
struct CodeCell {
  int number = 0;
  std::string source;
};
std::vector<CodeCell> read_code_cells(const std::string& notebook);

struct NotebookTools {
  std::string folder;                  // for files on the way
  std::vector<std::string> flags;      // for the compiler: -I...
  std::vector<std::string> libraries;  // -l...
  double seconds = 150;                // for each program
};
NotebookRun run_natively(const std::vector<CodeCell>& cells, const NotebookTools& tools);
NotebookRun run_in_repl(const std::vector<CodeCell>& cells, const NotebookTools& tools);

}  // namespace runner
