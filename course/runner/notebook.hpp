// Notebooks as files: the cells of an .ipynb, what its cells have printed, and the one form in
// which it is committed.
//
//     notebooks_cpp/10_collectives.ipynb ── read_code_cells ──► cells ── notebook_run.hpp ──► what
//     they print
//            ▲                                                                                    │
//            └──────────────── with_outputs (refresh) ◄───────── compare_outputs (the suite) ◄────┘
//
// The form is Jupyter's own: keys in order, one blank of indent, a line of code or of output a line
// of the file. So a notebook saved in JupyterLab and formatted differs only where somebody changed
// it.
#pragma once

#include <string>
#include <vector>

namespace runner {

// A part of what a cell shows: text, or an SVG picture.
struct Piece {
  bool is_picture = false;
  std::string text;
  bool operator==(const Piece&) const = default;
};
// Cuts what a cell printed at the marks that notebooks_cpp/notebook.hpp sets round a picture.
std::vector<Piece> pieces_of(const std::string& printed);

struct CodeCell {
  int number = 0;  // counted from 1 over all cells
  std::string source;
  std::vector<Piece> stored = {};  // its outputs in the file
  bool needs_programs = false;     // tagged "programs": it starts what `./yotta` builds
  bool needs_mpi = false;          // tagged "mpi" too: as processes
};
// Throws std::runtime_error with the path if it is no notebook.
std::vector<CodeCell> read_code_cells(const std::string& path);
// The text of the cells that are not code.
std::vector<std::string> read_texts(const std::string& path);

struct CellRun {
  int cell = 0;
  std::string printed;
};

// One complaint for each cell that shows something else than what is stored; numbers as in lessons'
// quotes (lesson_text.hpp): times do not count, decimals to three digits.
std::vector<std::string> compare_outputs(const std::vector<CodeCell>& cells,
                                         const std::vector<CellRun>& runs);
// The same for what another program has stored.
std::vector<std::string> compare_stored(const std::vector<CodeCell>& cells,
                                        const std::vector<CodeCell>& others);

// The notebook `json` with these outputs in place of its own.
std::string with_outputs(const std::string& json, const std::vector<CellRun>& runs);

// The notebook `json` in the form in which it is committed. `clang_format` is a program that
// formats the code cells; empty: they stay as they are. `folder` is for files on the way.
std::string format_notebook(const std::string& json, const std::string& clang_format,
                            const std::string& folder);

// clang-format 14, whose taste is the project's; empty if it is not installed.
std::string find_clang_format();

// What is wrong with a notebook at `path`: its kernel, its cells, its links. `root` is the
// project's folder.
std::vector<std::string> check_notebook(const std::string& path, const std::string& root);

}  // namespace runner
