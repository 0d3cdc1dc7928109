#include "runner/notebook_verb.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/notebook.hpp"
#include "runner/notebook_run.hpp"
#include "runner/process.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

const std::string root = YOTTA_SOURCE_DIR, jupyter_folder = YOTTA_BUILD_DIR "/jupyter",
                  work_folder = YOTTA_BUILD_DIR "/notebooks";

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

std::vector<Topic> find_notebooks() {
  std::vector<Topic> topics;
  for (const auto& entry : fs::directory_iterator(root + "/notebooks_cpp")) {
    const std::string id = entry.path().stem();
    if (entry.path().extension() == ".ipynb")
      topics.push_back({id, id.substr(0, 2), id.substr(3), ""});
  }
  std::sort(topics.begin(), topics.end(),
            [](const Topic& a, const Topic& b) { return a.id < b.id; });
  return topics;
}

std::string path_of(const Topic& topic) {
  return fmt::format("{}/notebooks_cpp/{}.ipynb", root, topic.id);
}

// Writes our kernel, xeus-cpp's own with -O2 -march=native and Yotta's folders, where JUPYTER_PATH
// finds it first.
bool have_kernel() {
  return succeeds("command -v jupyter") &&
         succeeds(fmt::format("python3 '{}/notebooks_cpp/kernel.py' '{}'", root, jupyter_folder));
}

Command with_kernel(const Command& command) {
  Command words = {"env", "JUPYTER_PATH=" + jupyter_folder};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

int open(const std::string& what) {
  if (have_kernel() && succeeds("jupyter lab --version"))
    return become(with_kernel({"jupyter", "lab", what}));
  fmt::print(stderr,
             "There is no JupyterLab with the C++ kernel xeus-cpp on this machine. Both come as "
             "conda packages:\n"
             "\n"
             "  conda env create -f {}/notebooks_cpp/environment.yml    (mamba and micromamba take "
             "the same words)\n"
             "  conda activate yotta-notebooks\n"
             "  ./yotta notebook\n"
             "\n"
             "conda itself: https://conda-forge.org/download. Until then the notebooks in "
             "notebooks_cpp/ can be read\n"
             "with their outputs, and `./yotta notebook NN --execute` runs one with clang-repl 19\n"
             "(Debian, Ubuntu: apt-get install clang-tools-19).\n",
             root);
  return 1;
}

NotebookTools repl_tools(const Topic& topic) {
  NotebookTools tools;
  tools.folder = fmt::format("{}/{}", work_folder, topic.id);
  tools.flags = notebook_flags(root, root + "/build/release/libyotta_notebook.so");
  tools.flags.insert(tools.flags.end(), {"-O2", "-march=native"});
  fs::create_directories(tools.folder);
  return tools;
}

std::vector<CellRun> run_it(const Topic& topic) {
  if (!succeeds("command -v clang-repl-19"))
    throw std::runtime_error(
        "neither xeus-cpp (./yotta notebook says how to get it) nor clang-repl 19 is installed "
        "(Debian, Ubuntu: apt-get install clang-tools-19)");
  const NotebookRun result = run_in_repl(read_code_cells(path_of(topic)), repl_tools(topic));
  if (!result.error.empty())
    throw std::runtime_error(fmt::format("notebook {}: {}", topic.id, result.error));
  return result.cells;
}

// Prints what differs from the stored outputs; returns how many cells do.
int report(const Topic& topic, const std::vector<std::string>& complaints) {
  for (const std::string& complaint : complaints)
    fmt::print("notebook {}, {}\n", topic.id, complaint);
  if (complaints.empty()) fmt::print("notebook {} shows what it shows in the file\n", topic.id);
  return static_cast<int>(complaints.size());
}

// A kernel has its own names for cells, as in "input_line_9:4"; where in a cell something happened
// is not compared.
std::vector<CodeCell> without_places(std::vector<CodeCell> cells) {
  const std::regex place("\\S*(cell |input_line_)[0-9]+(:[0-9]+)+");
  for (CodeCell& cell : cells)
    for (Piece& piece : cell.stored) piece.text = std::regex_replace(piece.text, place, "(cell)");
  return cells;
}

int execute(const Topic& topic) {
  const std::vector<CodeCell> cells = read_code_cells(path_of(topic));
  if (!have_kernel() || !succeeds("jupyter nbconvert --version"))
    return report(topic, compare_outputs(cells, run_it(topic)));
  fs::create_directories(work_folder);
  const int status = run(with_kernel({"jupyter", "nbconvert", "--to", "notebook", "--execute",
                                      "--output-dir", work_folder, path_of(topic)}));
  if (status != 0) return 1;
  const std::string executed = fmt::format("{}/{}.ipynb", work_folder, topic.id);
  return report(topic,
                compare_stored(without_places(cells), without_places(read_code_cells(executed))));
}

void refresh(const Topic& topic, bool with_run) {
  const std::string path = path_of(topic), folder = work_folder + "/format";
  write_text(path, format_notebook(read_text(path), find_clang_format(), folder));
  if (with_run) write_text(path, with_outputs(read_text(path), run_it(topic)));
  fmt::print("notebook {} is {}\n", topic.id, with_run ? "refreshed" : "formatted");
}

}  // namespace

int notebook(const NotebookOptions& options) {
  setenv("YOTTA_BUILD", YOTTA_BUILD_DIR, 1);  // where cells look for programs
  std::vector<Topic> chosen = find_notebooks();
  if (!options.name.empty()) chosen = {choose(chosen, options.name, "notebook")};
  if (!options.execute && !options.refresh && !options.format)
    return open(options.name.empty() ? root + "/notebooks_cpp" : path_of(chosen[0]));
  int different = 0;
  for (const Topic& topic : chosen) {
    if (options.refresh || options.format) refresh(topic, options.refresh);
    if (options.execute) different += execute(topic);
  }
  return different == 0 ? 0 : 1;
}

}  // namespace runner
