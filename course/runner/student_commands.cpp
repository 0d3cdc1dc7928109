#include "runner/student_commands.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "course/options/usage.hpp"
#include "runner/check.hpp"
#include "runner/exercise.hpp"
#include "runner/learn.hpp"
#include "runner/predict.hpp"
#include "runner/student_verbs.hpp"
#include "runner/submission.hpp"
#include "runner/topics.hpp"

namespace runner {
namespace {

// `lesson` and `bench`: a name to run, or a list.
CLI::App* add_choice(CLI::App& app, const std::string& verb, const std::string& help,
                     Named& chosen) {
  CLI::App* choice = app.add_subcommand(verb, help);
  choice->add_option("name", chosen.name,
                     "Its number or name; everything after it goes to the program");
  choice->add_option("--json", chosen.json, "Without a name: write the list to this file");
  return choice;
}

void add_key(CLI::App* verb, std::string& key) {
  verb->add_option("--variant", key,
                   "A key that changes numbers of the cases and sentences of the statement")
      ->envname("YOTTA_VARIANT");
}

void add_check(CLI::App& app, CheckOptions& options, int& result) {
  CLI::App* check = app.add_subcommand("check", "Grade an exercise, or everything that was begun");
  check->add_option("name", options.name, "Its number or name; 10.3 is one of its tasks");
  check->add_option("--file", options.file, "Grade this file instead of the one in work/");
  check->add_option("--json", options.json,
                    "Write the verdict to this file too; - is standard output");
  check->add_flag(
      "-v,--verbose", options.verbose,
      "Show every failure, all that the compiler says and all that your program prints");
  check
      ->add_option("--lines", options.lines,
                   "Of the verdict, at most; without it, what fits on the terminal")
      ->check(CLI::Range(1, 100'000));
  check->add_flag("--asan", options.asan,
                  "Run your code under AddressSanitizer: it names the line that reads or writes "
                  "memory which is not yours");
  add_key(check, options.variant);
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

void add_predict(CLI::App& app, PredictOptions& options, int& result) {
  CLI::App* predict =
      app.add_subcommand("predict", "Answer first, then run: a lesson's figures as questions");
  predict->add_option("name", options.name, "The lesson's number or name; without it, a list");
  predict->callback([&] { result = runner::predict(options); });
}

void add_learn(CLI::App& app, LearnOptions& options, int& result) {
  CLI::App* learn =
      app.add_subcommand("learn", "Do the exercises: your file is graded each time you save it");
  learn->add_option("name", options.name, "The exercise to begin with; without it, where you were");
  learn->add_flag("--poll", options.poll,
                  "Look at the file twice a second, where a folder tells nobody of its changes");
  learn->add_flag("--watch", options.watch,
                  "Without a terminal: go on after the first verdict, until you end it");
  add_key(learn, options.variant);
  learn->callback([&] { result = runner::learn(options); });
}

// What the build calls to make the files that the suite proves an exercise with.
struct VariantOptions {
  std::string exercise, name, out;
};
void add_variant(CLI::App& app, VariantOptions& variant) {
  CLI::App* command =
      app.add_subcommand("variant", "Write the starter, library or wrong variant")->group("");
  command->add_option("exercise", variant.exercise)->required();
  command->add_option("name", variant.name)->required();
  command->add_option("out", variant.out)->required();
  command->callback([&] {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, variant.exercise);
    write_text(variant.out, variant_of(exercise, variant.name));
  });
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

// What the verbs are told.
struct VerbOptions {
  Named lesson, bench;
  CheckOptions check;
  StudentOptions student;
  LearnOptions learn;
  PredictOptions predict;
  VariantOptions variant;
};
void add_student_commands(CLI::App& app, VerbOptions& options, const std::vector<std::string>& rest,
                          int& result) {
  add_choice(app, "lesson", "List the lessons, or run one", options.lesson)->callback([&] {
    result = runner::lesson(options.lesson.name, rest, options.lesson.json);
  });
  add_choice(app, "bench", "List the benchmarks, or run one", options.bench)->callback([&] {
    result = runner::bench(options.bench.name, rest, options.bench.json);
  });
  add_check(app, options.check, result);
  add_student_verbs(app, options.student, result);
  add_learn(app, options.learn, result);
  add_predict(app, options.predict, result);
  add_variant(app, options.variant);
}

}  // namespace

int run_command_line(int argc, char** argv,
                     const std::function<void(CLI::App& app, int& result)>& add_others) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::vector<std::string> rest = take_program_arguments(words);
  int result = 0;
  CLI::App app{"Yotta's lessons, exercises, benchmarks and tests", "./yotta"};
  app.require_subcommand(1);
  VerbOptions options;
  add_student_commands(app, options, rest, result);
  if (add_others) add_others(app, result);
  try {
    std::reverse(words.begin(), words.end());  // the order in which CLI11 takes a list
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return yotta::end_by_usage(app, error);
  } catch (const UsageError& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return usage_error;
  } catch (const NoSuchTopic& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return usage_error;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 1;
  }
  return result;
}

}  // namespace runner
