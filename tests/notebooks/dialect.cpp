// The limits of clang-repl's C++, which notebooks and the headers they use have to keep to:
//
//     a thread_local with a destructor crashes at the end: YOTTA_THREAD_LOCAL of plain types only
//     std::async, call_once and promise miss a symbol of thread-local storage: not in headers
//     a lambda inside a statement outside functions can crash the compiler: cells call functions
//     a `const` variable that is computed may still be empty when a statement of its own cell reads
//     it what has a name cannot be defined twice: cells to change are statements, or a block in
//     braces a library must be loaded before a cell that needs it: notebooks_cpp/notebook.hpp
//     stands in the first cell
#include <fstream>
#include <set>
#include <sstream>

#include "runner/exercise.hpp"
#include "support.hpp"

namespace fs = std::filesystem;
using namespace runner;

namespace {

const fs::path project = YOTTA_SOURCE_DIR;

// Kernels are run by programs, not in cells.
bool is_kernel(const fs::path& header) {
  return header.string().find("/device/") != std::string::npos;
}

// The lines of headers below `folder` that clang-repl would stumble over.
std::vector<std::string> stumbling_blocks(const fs::path& folder) {
  std::vector<std::string> complaints;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".hpp" || entry.path().filename() == "build.hpp" ||
        is_kernel(entry.path()))
      continue;
    for (const std::string& line : lines_of(read_text(entry.path()))) {
      const std::string code = line.substr(0, line.find("//"));
      for (const char* word :
           {" thread_local", "std::async", "std::call_once", "std::promise", "std::packaged_task"})
        if (code.find(word) != code.npos)
          complaints.push_back(entry.path().filename().string() + ": " + line);
    }
  }
  return complaints;
}

// Every header that some notebook includes.
std::string all_includes() {
  std::set<std::string> includes;
  for (const auto& entry : fs::directory_iterator(project / "notebooks_cpp")) {
    if (entry.path().extension() != ".ipynb") continue;
    for (const CodeCell& cell : read_code_cells(entry.path()))
      for (const std::string& line : lines_of(cell.source))
        if (line.starts_with("#include")) includes.insert(line);
  }
  includes.insert("#include \"yotta/comm/run_ranks.hpp\"");
  std::string all;
  for (const std::string& include : includes) all += include + "\n";
  return all;
}

const std::string use = R"(
int checks = 0;
struct Counted { static inline int count = 0; };
void outside_ranks() {
  const yotta::Tensor x = yotta::Tensor::full({2, 3}, 1);
  checks += yotta::context().size == 1 && x.numel() == 6;
}
void on_ranks() {
  yotta::run_ranks(4, [](yotta::Communicator& world) {
    std::vector<float> x = {1};
    yotta::Work work = world.all_reduce_async(x);  // a fiber
    work.wait();
    if (world.rank() == 3) checks += x[0] == 4 && yotta::context().rank == 3;
  });
}
void caught() {
  try {
    yotta::run_ranks(2, [](yotta::Communicator& world) { world.barrier(); throw std::runtime_error("cell"); });
  } catch (const std::exception&) { ++checks; }
  ++Counted::count;
}
outside_ranks();
on_ranks();
caught();
)";

void try_out(const std::string& repl) {
  NotebookTools tools = notebook_tools("dialect_" + repl);
  tools.repl = repl;
  const NotebookRun run = run_in_repl({{1, "#include \"notebook.hpp\""},
                                       {2, all_includes()},
                                       {3, use},
                                       {4,
                                        "outside_ranks(); on_ranks(); caught(); std::printf(\"%d "
                                        "%d\\n\", checks, Counted::count);"}},
                                      tools);
  CHECK_MESSAGE(run.error.empty(), run.error);
  REQUIRE(run.cells.size() == 4);
  CHECK(run.cells[3].printed == "6 2\n");
}

}  // namespace

TEST_CASE("no header uses what clang-repl cannot do") {
  check_none(stumbling_blocks(project / "include"));
  const fs::path sketch = fs::path(YOTTA_BUILD_DIR) / "notebooks/dialect_sketch";
  fs::remove_all(sketch);
  fs::create_directories(sketch);
  write_text((sketch / "fine.hpp").string(),
             "YOTTA_THREAD_LOCAL int x;  // no thread_local here\n");
  CHECK(stumbling_blocks(sketch).empty());
  write_text((sketch / "wrong.hpp").string(),
             "inline thread_local std::string x;\nauto y = std::async(f);\n");
  CHECK(stumbling_blocks(sketch).size() == 2);
}

TEST_CASE("clang-repl 19 takes every header of the notebooks, threads, fibers and exceptions") {
  if (!have("clang-repl-19")) YOTTA_NOT_RUN(how_to_install);
  try_out("clang-repl-19");
}

TEST_CASE("so does clang-repl 22") {
  if (!have("clang-repl-22"))
    YOTTA_NOT_RUN("clang-repl 22 is not installed (apt-get install clang-tools-22)");
  try_out("clang-repl-22");
}
