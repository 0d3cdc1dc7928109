// Does a notebook run, and show what its file shows? For the notebook that YOTTA_NOTEBOOK names.
#include "runner/exercise.hpp"
#include "support.hpp"

using namespace runner;

namespace {
std::string stem() { return std::filesystem::path(notebook_path()).stem(); }
}  // namespace

TEST_CASE("cell by cell in clang-repl, every cell shows what the file shows") {
  if (!have("clang-repl-19")) YOTTA_NOT_RUN(how_to_install);
  const std::vector<CodeCell> cells = read_code_cells(notebook_path());
  for (const CodeCell& cell : cells)
    if (cell.needs_mpi && !have("mpirun"))
      YOTTA_NOT_RUN("MPI is not installed (apt-get install libopenmpi-dev openmpi-bin)");
  const NotebookRun run = run_in_repl(cells, notebook_tools(stem()));
  CHECK_MESSAGE(run.error.empty(), run.error);
  CHECK(run.cells.size() == cells.size());
  check_none(compare_outputs(cells, run.cells));
}

TEST_CASE("its kernel, links, pictures and cells to change are there") {
  check_none(check_notebook(notebook_path(), YOTTA_SOURCE_DIR));
}

TEST_CASE("it is formatted: ./yotta notebook --format") {
  const std::string clang_format = find_clang_format(), text = read_text(notebook_path());
  if (clang_format.empty())
    YOTTA_NOT_RUN("clang-format 14 is not installed (apt-get install clang-format-14)");
  const std::string folder = fmt::format("{}/notebooks/{}_format", YOTTA_BUILD_DIR, stem());
  const bool formatted = format_notebook(text, clang_format, folder) == text;
  CHECK(formatted);
}
