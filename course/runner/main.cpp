// The whole runner: the verbs of students and those of authors and instructors. This file reads the
// command line and nothing else, because CLI11 takes long to compile; each verb has files of its
// own.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runner/author.hpp"
#include "runner/completion.hpp"
#include "runner/exercise.hpp"
#include "runner/instructor_verbs.hpp"
#include "runner/mutate.hpp"
#include "runner/notebook_verb.hpp"
#include "runner/slides.hpp"
#include "runner/student_commands.hpp"
#include "runner/submission.hpp"
#include "runner/suite.hpp"
#include "runner/verify.hpp"

namespace {

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

void add_slides(CLI::App& app, runner::SlidesOptions& options, int& result) {
  CLI::App* slides = app.add_subcommand("slides", "Make a deck of slides from a lesson");
  slides->add_option("name", options.name, "The lesson's number or name")->required();
  slides->add_option("--out", options.out, "The HTML file; without it NN_topic.html here");
  slides->add_option("--json", options.json, "Write the file's name to this file too");
  slides->callback([&] { result = runner::slides(options); });
}

// For authors of exercises.
void add_exercise(CLI::App& app, runner::Named& chosen, int& result) {
  CLI::App* exercise =
      app.add_subcommand("exercise", "For authors: make a new exercise, or prove that one is fair");
  exercise->callback([exercise] {
    if (exercise->get_subcommands().empty())
      throw runner::UsageError(
          "`./yotta exercise` is `new NN_topic`, `signatures [NN]` or `verify [NN]`");
  });
  CLI::App* make = exercise->add_subcommand("new", "Make a whole exercise, which works as it is");
  make->add_option("name", chosen.name, "Its number and name, such as 32_my_topic")->required();
  make->add_option("--json", chosen.json, "Write the names of its files to this file too");
  make->callback([&] { result = runner::make_exercise(chosen.name, chosen.json); });
  CLI::App* signatures = exercise->add_subcommand(
      "signatures", "Write the tasks' functions into the README of an exercise, or of all");
  signatures->add_option("name", chosen.name, "Its number or name; without it, all of them");
  signatures->callback([&] { result = runner::write_signatures(chosen.name); });
  CLI::App* verify = exercise->add_subcommand("verify", "Prove that an exercise is fair, or all");
  verify->add_option("name", chosen.name, "Its number or name; without it, all of them");
  verify->add_option("--json", chosen.json, "Write the proofs to this file too");
  const auto options = std::make_shared<runner::MutateOptions>();
  const auto mutates = std::make_shared<bool>(false);
  CLI::Option* flag = verify->add_flag(
      "--mutate", *mutates,
      "Change its solution by one token or statement at a time instead, and list the changes that "
      "no case notices");
  verify
      ->add_option("--table", options->table,
                   "With --mutate: a file of Markdown that gets the counts")
      ->needs(flag);
  verify->callback([&chosen, &result, options, mutates] {
    options->name = chosen.name, options->json = chosen.json;
    result = *mutates ? runner::mutate(*options) : runner::verify(chosen.name, chosen.json);
  });
}

// The verbs that are no author's tool, with their options.
std::vector<runner::VerbWords> verbs_of(const CLI::App& app) {
  std::vector<runner::VerbWords> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_group().empty()) continue;
    verbs.push_back({verb->get_name(), verb->get_description(), {}});
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& name : option->get_lnames())
        verbs.back().options.push_back("--" + name);
  }
  return runner::all_verbs(std::move(verbs));
}
void add_completion(CLI::App& app, std::string& folder, int& result) {
  CLI::App* completion = app.add_subcommand("completion", "Write course/completion again");
  completion->add_option("folder", folder, "Instead of course/completion");
  completion->group("")->callback(
      [&] { result = runner::write_completion(verbs_of(app), folder); });
}

void add_test(CLI::App& app, runner::SuiteOptions& suite, int& result) {
  CLI::App* test =
      app.add_subcommand("test", "Build and test everything, and count what became of it");
  test->add_option("tier", suite.tier, "release, gcc, asan or tsan")
      ->check(CLI::IsMember({"release", "gcc", "asan", "tsan"}));
  test->add_option("--only", suite.only, "Only the tests whose names match this expression");
  test->add_flag("--long", suite.long_form,
                 "Also what takes longer: all MPIs, nvcc on each file, benchmarks");
  test->add_option("--json", suite.json, "Write the counts and every outcome to this file");
  test->callback([&] { result = runner::test_everything(suite); });
}

}  // namespace

int main(int argc, char** argv) {
  runner::NotebookOptions notebook;
  runner::SlidesOptions slides;
  runner::Named exercise;
  std::string completion = YOTTA_SOURCE_DIR "/course/completion";
  runner::SuiteOptions suite;
  return runner::run_command_line(argc, argv, [&](CLI::App& app, int& result) {
    add_notebook(app, notebook, result);
    add_slides(app, slides, result);
    add_exercise(app, exercise, result);
    add_completion(app, completion, result);
    runner::add_instructor_verbs(app, result);
    add_test(app, suite, result);
  });
}
