// The runner: what `./yotta lesson`, `bench`, `check`, `notebook` and `test` hand over to. This file reads the
// command line and nothing else, because CLI11 takes long to compile; each verb has files of its own.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "runner/check.hpp"
#include "runner/exercise.hpp"
#include "runner/instructor_verbs.hpp"
#include "runner/notebook_verb.hpp"
#include "runner/suite.hpp"
#include "runner/topics.hpp"

namespace {

struct Chosen {
  std::string name;
  std::string json;
};

// `lesson` and `bench`: a name to run, or a list.
CLI::App* add_choice(CLI::App& app, const std::string& verb, const std::string& help,
                     Chosen& chosen) {
  CLI::App* choice = app.add_subcommand(verb, help);
  choice->add_option("name", chosen.name,
                     "Its number or name; everything after it goes to the program");
  choice->add_option("--json", chosen.json, "Without a name: write the list to this file");
  return choice;
}

void add_check(CLI::App& app, runner::CheckOptions& options, int& result) {
  CLI::App* check = app.add_subcommand("check", "List the exercises, or grade one");
  check->add_option("name", options.name, "Its number or name");
  check->add_option("--file", options.file, "Grade this file instead of the one in work/");
  check->add_option("--json", options.json,
                    "Write the verdict to this file too; - is standard output");
  check->add_flag("--hint", options.hint, "Show the next hint for the first open task");
  check->add_flag(
      "--afresh", options.afresh,
      "Start again from the starter; your file is kept beside it as .before, .before.2, ...");
  check->add_flag("--cut", options.cut,
                  "For authors: cut the starter from the library's header again");
  check->callback([&] { result = runner::check(options); });
}

void add_notebook(CLI::App& app, runner::NotebookOptions& options, int& result) {
  CLI::App* notebook = app.add_subcommand("notebook", "Open the C++ notebooks in JupyterLab");
  notebook->add_option("name", options.name, "A notebook's number or name; without it, all");
  notebook->add_flag(
      "--execute", options.execute,
      "Run it (with xeus-cpp, or else clang-repl 19) and compare with what it shows");
  notebook->add_flag("--refresh", options.refresh,
                     "For authors: run it with clang-repl 19 and store what it shows");
  notebook->add_flag("--format", options.format, "For authors: bring it into the committed form");
  notebook->callback([&] { result = runner::notebook(options); });
}

// What the build calls to make the files that the suite proves an exercise with.
struct Variant {
  std::string exercise, name, out;
};
void add_variant(CLI::App& app, Variant& variant) {
  CLI::App* command =
      app.add_subcommand("variant", "Write the starter, library or wrong variant")->group("");
  command->add_option("exercise", variant.exercise)->required();
  command->add_option("name", variant.name)->required();
  command->add_option("out", variant.out)->required();
  command->callback([&] {
    const runner::Exercise exercise = runner::read_exercise(YOTTA_SOURCE_DIR, variant.exercise);
    runner::write_text(variant.out, runner::variant_of(exercise, variant.name));
  });
}

// After the name of a lesson or benchmark every word is the program's own. Takes them off the command line.
std::vector<std::string> take_program_arguments(std::vector<std::string>& words) {
  if (words.size() < 2 || (words[0] != "lesson" && words[0] != "bench")) return {};
  if (words[1].starts_with("-")) return {};
  std::vector<std::string> taken(words.begin() + 2, words.end());
  words.resize(2);
  if (!taken.empty() && taken[0] == "--") taken.erase(taken.begin());
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::vector<std::string> rest = take_program_arguments(words);
  int result = 0;

  CLI::App app{"Yotta's lessons, exercises, benchmarks and tests", "./yotta"};
  app.require_subcommand(1);

  Chosen lesson, bench;
  add_choice(app, "lesson", "List the lessons, or run one", lesson)->callback([&] {
    result = runner::lesson(lesson.name, rest, lesson.json);
  });
  add_choice(app, "bench", "List the benchmarks, or run one", bench)->callback([&] {
    result = runner::bench(bench.name, rest, bench.json);
  });

  runner::CheckOptions check;
  add_check(app, check, result);
  runner::NotebookOptions notebook;
  add_notebook(app, notebook, result);
  Variant variant;
  add_variant(app, variant);
  runner::add_instructor_verbs(app, result);

  runner::SuiteOptions suite;
  CLI::App* test =
      app.add_subcommand("test", "Build and test everything, and count what became of it");
  test->add_option("tier", suite.tier, "release, clang, asan or tsan")
      ->check(CLI::IsMember({"release", "clang", "asan", "tsan"}));
  test->add_option("--only", suite.only, "Only the tests whose names match this expression");
  test->add_flag("--long", suite.long_form,
                 "Also what takes longer: all MPIs, nvcc on each file, benchmarks");
  test->add_option("--json", suite.json, "Write the counts and every outcome to this file");
  test->callback([&] { result = runner::test_everything(suite); });

  try {
    std::reverse(words.begin(), words.end());  // the order in which CLI11 takes a list
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 1;
  }
  return result;
}
