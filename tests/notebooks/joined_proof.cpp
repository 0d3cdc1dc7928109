// A notebook's cells, joined into one file and compiled with clang's warnings, and under the
// sanitizers of the library behind them. For the notebook that YOTTA_NOTEBOOK names.
#include "support.hpp"
#include "yotta/core/system/build.hpp"

using namespace runner;

TEST_CASE("joined and compiled, every cell shows what the file shows") {
  if (!have("clang++-19")) YOTTA_NOT_RUN(how_to_install);
  std::vector<CodeCell> cells = read_code_cells(notebook_path());
  std::erase_if(cells, [](const CodeCell& cell) { return cell.needs_programs; });
  NotebookTools tools = notebook_tools(std::filesystem::path(notebook_path()).stem());
  tools.flags.insert(tools.flags.end(), {"-Wall", "-Wextra", "-Werror"});
  if (YOTTA_ASAN) {
    tools.flags.insert(tools.flags.end(),
                       {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"});
    tools.seconds = 1200;  // the planner's search alone takes 160, with the machine to itself
  }
  const NotebookRun run = run_natively(cells, tools);
  CHECK_MESSAGE(run.error.empty(), run.error);
  CHECK(run.cells.size() == cells.size());
  check_none(compare_outputs(cells, run.cells));
}
