// Does a notebook run? For the notebook that YOTTA_NOTEBOOK names, without Jupyter: see runner/notebook.hpp.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>

#include "runner/exercise.hpp"
#include "runner/notebook.hpp"
#include "support/not_run.hpp"

using namespace runner;

namespace {

bool have(const std::string& program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}
constexpr const char* how_to_install =
    "clang 19 is not installed (Debian, Ubuntu: apt-get install clang-19 clang-tools-19 "
    "libclang-rt-19-dev)";

std::string notebook() {
  const char* path = std::getenv("YOTTA_NOTEBOOK");
  REQUIRE(path != nullptr);
  return path;
}

NotebookTools tools(const std::string& name) {
  NotebookTools made;
  made.folder = fmt::format("{}/notebooks/{}", YOTTA_BUILD_DIR, name);
  std::filesystem::create_directories(made.folder);
  made.flags = {fmt::format("-I{}/include", YOTTA_SOURCE_DIR),
                fmt::format("-I{}/tests/course", YOTTA_SOURCE_DIR)};
  made.libraries = {"-lfmt", "-lboost_context"};
  return made;
}

// What each cell printed, natively; run once for all cases.
const NotebookRun& native_run() {
  static const NotebookRun run = run_natively(read_code_cells(notebook()), tools("native"));
  return run;
}

void check_same(const NotebookRun& run) {
  CHECK_MESSAGE(run.error.empty(), run.error);
  REQUIRE(run.cells.size() == native_run().cells.size());
  for (size_t i = 0; i < run.cells.size(); ++i) {
    INFO("cell " << run.cells[i].cell);
    CHECK(run.cells[i].output == native_run().cells[i].output);
  }
}

}  // namespace

TEST_CASE("joined and compiled, all cells come to their end, and one shows a picture") {
  if (!have("clang++-19")) YOTTA_NOT_RUN(how_to_install);
  const NotebookRun& run = native_run();
  CHECK_MESSAGE(run.error.empty(), run.error);
  CHECK(run.cells.size() >= 3);
  bool picture = false;
  for (const CellRun& cell : run.cells)
    picture |= cell.output.find("[image/svg+xml, <svg") != std::string::npos;
  CHECK(picture);
}

TEST_CASE("the same under AddressSanitizer and UndefinedBehaviorSanitizer") {
  if (!have("clang++-19")) YOTTA_NOT_RUN(how_to_install);
  NotebookTools sanitized = tools("asan");
  sanitized.flags.insert(sanitized.flags.end(),
                         {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"});
  check_same(run_natively(read_code_cells(notebook()), sanitized));
}

TEST_CASE("cell by cell in clang-repl, every cell prints the same") {
  if (!have("clang-repl-19")) YOTTA_NOT_RUN(how_to_install);
  check_same(run_in_repl(read_code_cells(notebook()), tools("repl")));
}

TEST_CASE("it is a notebook of the C++ kernel, with text between the cells and no stored output") {
  const std::string text = read_text(notebook());
  CHECK(text.find("\"name\": \"xcpp20\"") != std::string::npos);
  CHECK(text.find("\"cell_type\": \"markdown\"") != std::string::npos);
  CHECK(text.find("\"output_type\"") == std::string::npos);
}

TEST_CASE("a cell with an error, a throw, a crash or an endless loop is noticed both ways") {
  if (!have("clang-repl-19")) YOTTA_NOT_RUN(how_to_install);
  NotebookTools quick = tools("broken");
  quick.seconds = 10;
  const CodeCell good = {
      1, "int x = 3;\nint twice() {\n  return 2 * x;\n}\nstd::printf(\"%d\\n\", twice());"};
  for (const auto run : {run_natively, run_in_repl}) {
    const NotebookRun fine = run({good, {3, "x = 4; std::puts(\"four\");"}}, quick);
    CHECK_MESSAGE(fine.error.empty(), fine.error);
    REQUIRE(fine.cells.size() == 2);
    CHECK(fine.cells[0].output == "6\n");
    CHECK(fine.cells[1].output == "four\n");
    for (const char* bad : {"int y = nothing;", "void f() { throw 1; }\nf();",
                            "*static_cast<volatile int*>(nullptr) = 1;"}) {
      INFO(bad);
      CHECK_FALSE(run({good, {2, bad}}, quick).error.empty());
    }
    NotebookTools impatient = quick;
    impatient.seconds = 3;
    CHECK_FALSE(run({{1, "void f() { for (volatile int i = 0;; i = i + 1) {} }\nf();"}}, impatient)
                    .error.empty());
  }
}
