// The runner: what most verbs of ./yotta hand over to. This file reads the
// command line and nothing else, because CLI11 takes long to compile; each verb has files of its
// own.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "course/shared/usage.hpp"
#include "runner/author.hpp"
#include "runner/check.hpp"
#include "runner/completion.hpp"
#include "runner/exercise.hpp"
#include "runner/instructor_verbs.hpp"
#include "runner/learn.hpp"
#include "runner/notebook_verb.hpp"
#include "runner/predict.hpp"
#include "runner/slides.hpp"
#include "runner/student_verbs.hpp"
#include "runner/submission.hpp"
#include "runner/suite.hpp"
#include "runner/topics.hpp"
#include "runner/verify.hpp"

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
  CLI::App* check = app.add_subcommand("check", "Grade an exercise, or everything that was begun");
  check->add_option("name", options.name, "Its number or name; 10.3 is one of its tasks");
  check->add_option("--file", options.file, "Grade this file instead of the one in work/");
  check->add_option("--json", options.json,
                    "Write the verdict to this file too; - is standard output");
  check->add_flag(
      "-v,--verbose", options.verbose,
      "Show every failure, all that the compiler says and all that your program prints");
  check->add_flag("--asan", options.asan,
                  "Run your code under AddressSanitizer: it names the line that reads or writes "
                  "memory which is not yours");
  check
      ->add_option("--variant", options.variant,
                   "A key that changes numbers of the cases and sentences of the statement")
      ->envname("YOTTA_VARIANT");
  check->add_flag("--no-asan", options.no_asan,
                  "Leave AddressSanitizer out where an exercise asks for it after the verdict");
  check->add_flag("--hint", options.hint, "Show the next hint for the first open task");
  check->add_flag(
      "--afresh", options.afresh,
      "Start again from the starter; your file is kept beside it as .before, .before.2, ...");
  check->callback([&] { result = runner::check(options); });
}

// `list`, `hint` and `reset`.
struct StudentOptions {
  std::string word, json;
  bool yes = false;
};
void add_student_verbs(CLI::App& app, StudentOptions& options, int& result) {
  CLI::App* list = app.add_subcommand("list", "List the exercises, with what you have earned");
  list->add_option("word", options.word, "Only those with this word in their name or title");
  list->add_option("--json", options.json, "Write the list to this file too; - is standard output");
  list->callback([&] { result = runner::list_exercises(options.word, options.json); });
  CLI::App* hint = app.add_subcommand("hint", "Show the next hint");
  hint->add_option("name", options.word, "An exercise's number or name; 10.3 is one of its tasks")
      ->required();
  hint->callback([&] { result = runner::hint(options.word); });
  CLI::App* reset = app.add_subcommand("reset", "Start an exercise again; your file is kept");
  reset->add_option("name", options.word, "Its number or name")->required();
  reset->add_flag("-y,--yes", options.yes, "Do not ask");
  reset->callback([&] { result = runner::reset(options.word, options.yes); });
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

void add_predict(CLI::App& app, runner::PredictOptions& options, int& result) {
  CLI::App* predict =
      app.add_subcommand("predict", "Answer first, then run: a lesson's figures as questions");
  predict->add_option("name", options.name, "The lesson's number or name; without it, a list");
  predict->callback([&] { result = runner::predict(options); });
}

void add_slides(CLI::App& app, runner::SlidesOptions& options, int& result) {
  CLI::App* slides = app.add_subcommand("slides", "Make a deck of slides from a lesson");
  slides->add_option("name", options.name, "The lesson's number or name")->required();
  slides->add_option("--out", options.out, "The HTML file; without it NN_topic.html here");
  slides->add_option("--json", options.json, "Write the file's name to this file too");
  slides->add_flag("--markdown", options.markdown,
                   "Print the deck's Markdown instead, without pandoc");
  slides->callback([&] { result = runner::slides(options); });
}

// For authors of exercises.
void add_exercise(CLI::App& app, Chosen& chosen, int& result) {
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
  verify->callback([&] { result = runner::verify(chosen.name, chosen.json); });
}

void add_learn(CLI::App& app, runner::LearnOptions& options, int& result) {
  CLI::App* learn =
      app.add_subcommand("learn", "Do the exercises: your file is graded each time you save it");
  learn->add_option("name", options.name, "The exercise to begin with; without it, where you were");
  learn->add_flag("--poll", options.poll,
                  "Look at the file twice a second, where a folder tells nobody of its changes");
  learn->add_flag("--watch", options.watch,
                  "Without a terminal: go on after the first verdict, until you end it");
  learn->callback([&] { result = runner::learn(options); });
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

// After the name of a lesson or benchmark every word is the program's own. Takes them off the
// command line.
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
  StudentOptions student;
  add_student_verbs(app, student, result);
  runner::LearnOptions learn;
  add_learn(app, learn, result);
  runner::NotebookOptions notebook;
  add_notebook(app, notebook, result);
  runner::PredictOptions predict;
  add_predict(app, predict, result);
  runner::SlidesOptions slides;
  add_slides(app, slides, result);
  Chosen exercise;
  add_exercise(app, exercise, result);
  std::string completion = YOTTA_SOURCE_DIR "/course/completion";
  add_completion(app, completion, result);
  Variant variant;
  add_variant(app, variant);
  runner::add_instructor_verbs(app, result);

  runner::SuiteOptions suite;
  CLI::App* test =
      app.add_subcommand("test", "Build and test everything, and count what became of it");
  test->add_option("tier", suite.tier, "release, gcc, asan or tsan")
      ->check(CLI::IsMember({"release", "gcc", "asan", "tsan"}));
  test->add_option("--only", suite.only, "Only the tests whose names match this expression");
  test->add_flag("--long", suite.long_form,
                 "Also what takes longer: all MPIs, nvcc on each file, benchmarks");
  test->add_option("--json", suite.json, "Write the counts and every outcome to this file");
  test->callback([&] { result = runner::test_everything(suite); });

  try {
    std::reverse(words.begin(), words.end());  // the order in which CLI11 takes a list
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return yotta::end_by_usage(app, error);
  } catch (const runner::UsageError& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return runner::usage_error;
  } catch (const runner::NoSuchTopic& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return runner::usage_error;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 1;
  }
  return result;
}
