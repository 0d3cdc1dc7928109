#include "runner/notebook_run.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"

namespace runner {
namespace {

constexpr const char* prelude = "#include <unistd.h>\n#include <cstdio>\n";

std::string sentinel(int cell) { return fmt::format("<<end of cell {}>>", cell); }
std::string print_sentinel(int cell) {
  return fmt::format("std::puts(\"{}\"); std::fflush(stdout);\n", sentinel(cell));
}
// Diagnostics name the cell and its line.
std::string numbered(const CodeCell& cell) {
  return fmt::format("#line 1 \"cell {}\"\n{}\n", cell.number, cell.source);
}

// Cuts what was printed at the sentinels.
NotebookRun cut(const std::vector<CodeCell>& cells, const std::string& output,
                const Ending& ending) {
  NotebookRun run;
  size_t begin = 0;
  for (const CodeCell& cell : cells) {
    const std::string end = sentinel(cell.number) + "\n";
    const size_t at = output.find(end, begin);
    if (at == std::string::npos) {
      run.error = fmt::format("cell {} did not come to its end{}", cell.number,
                              ending.too_late ? ": out of time" : "");
      return run;
    }
    run.cells.push_back({cell.number, output.substr(begin, at - begin)});
    begin = at + end.size();
  }
  if (!ending.well())
    run.error =
        fmt::format("after the last cell: status {}, signal {}", ending.status, ending.signal);
  return run;
}

// A command with its output in `folder`/out and its errors in `folder`/err.
Ending run_apart(const std::vector<std::string>& command, const std::string& folder,
                 const std::string& input, double seconds) {
  std::vector<std::string> words = {
      "sh", "-c",  "in=$1 out=$2; shift 2; exec \"$@\" <\"$in\" >\"$out/out\" 2>\"$out/err\"",
      "sh", input, folder};
  words.insert(words.end(), command.begin(), command.end());
  return run_limited(words, seconds);
}

void add(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

std::vector<std::string> notebook_flags(const std::string& root, const std::string& library) {
  std::vector<std::string> flags = {fmt::format("-I{}/include", root),
                                    fmt::format("-I{}/notebooks_cpp", root)};
  if (std::filesystem::exists(library))
    add(flags, {"-DYOTTA_COMPILED", fmt::format("-DYOTTA_NOTEBOOK_LIBRARY=\"{}\"", library)});
  return flags;
}

namespace {
// An error log says enough at its start: the JIT's lists of missing symbols have no end.
std::string start_of(const std::string& log) { return "\n" + log.substr(0, 3000); }
}  // namespace

NotebookRun run_natively(const std::vector<CodeCell>& cells, const NotebookTools& tools) {
  const std::string source = tools.folder + "/joined.cpp", program = tools.folder + "/joined";
  std::string text = prelude;
  for (const CodeCell& cell : cells) text += numbered(cell) + print_sentinel(cell.number);
  write_text(source, text + "int main() {}\n");
  std::vector<std::string> compile = {"clang++-19", "-std=c++20",
                                      "-O0",        "-fno-crash-diagnostics",
                                      "-Xclang",    "-fincremental-extensions",
                                      source,       "-o",
                                      program,      "-pthread"};
  add(compile, tools.flags);
  add(compile, tools.libraries);
  const Ending compiled = run_limited(compile, tools.seconds);
  if (!compiled.well()) return {{}, start_of(compiled.output)};
  const Ending ending = run_apart({program}, tools.folder, "/dev/null", tools.seconds);
  NotebookRun run = cut(cells, read_text(tools.folder + "/out"), ending);
  if (!run.error.empty()) run.error += start_of(read_text(tools.folder + "/err"));
  return run;
}

NotebookRun run_in_repl(const std::vector<CodeCell>& cells, const NotebookTools& tools) {
  std::string input = prelude;
  for (const CodeCell& cell : cells) {  // of a file several lines are one input
    const std::string file = fmt::format("{}/cell_{}.cpp", tools.folder, cell.number);
    write_text(file, numbered(cell));
    input += fmt::format("#include \"{}\"\n{}", file, print_sentinel(cell.number));
  }
  // At its end clang-repl unloads the cells' code, under threads that stay awake for 5 ms after a
  // matmul.
  write_text(tools.folder + "/input", input + "usleep(20'000);\n");
  std::vector<std::string> command = {tools.repl, "--Xcc=-std=c++20"};
  for (const std::string& flag : tools.flags) command.push_back("--Xcc=" + flag);
  const Ending ending = run_apart(command, tools.folder, tools.folder + "/input", tools.seconds);
  NotebookRun run = cut(cells, read_text(tools.folder + "/out"), ending);
  const std::string errors = read_text(tools.folder + "/err");
  if (run.error.empty() && errors.find("error:") != std::string::npos)
    run.error = "a cell has an error";
  if (!run.error.empty()) run.error += start_of(errors);
  return run;
}

}  // namespace runner
