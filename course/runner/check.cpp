#include "runner/check.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "course/options/console.hpp"
#include "runner/grading.hpp"
#include "runner/json_output.hpp"
#include "runner/solution.hpp"
#include "runner/student_verbs.hpp"
#include "runner/submission.hpp"
#include "runner/terminal.hpp"
#include "runner/variant.hpp"

namespace fs = std::filesystem;
using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

constexpr int could_not_grade = 3;  // exit status

std::string file_to_grade(const Exercise& exercise, const CheckOptions& options) {
  if (options.file.empty()) return options.afresh ? start_again(exercise) : student_file(exercise);
  if (!fs::is_regular_file(options.file))
    throw std::runtime_error("there is no file " + options.file);
  return fs::absolute(options.file);
}

nlohmann::json refused(const std::string& exercise, const std::string& why) {
  return {{"exercise", exercise}, {"graded", false}, {"error", why}};
}

int refuse(const CheckOptions& options, const std::string& why, JsonOutput& output) {
  fmt::print(stderr, "yotta: could not grade: {}\n", why);
  try {
    output.write(refused(options.name, why));
  } catch (const std::exception& error) {
    if (error.what() != why) fmt::print(stderr, "yotta: {}\n", error.what());
  }
  return could_not_grade;
}

enum class Look { first, sanitized };

// Under AddressSanitizer only if this is the sanitized look: it takes as long again, and more.
Verdict look_at(Exercise exercise, const std::string& file, Look look) {
  exercise.asan = look == Look::sanitized;
  return grade_file(exercise, file);
}

// Where exercise.json asks for AddressSanitizer, what has earned points is run under it too, after
// the verdict: so nobody waits for the second look to see what the first has found.
bool looks_twice(const Exercise& exercise, const CheckOptions& options, const Verdict& first) {
  return exercise.asan && !options.asan && !options.no_asan && can_instrument() &&
         first.grade.points > 0;
}

std::string said_by_second(const Exercise& exercise, const Verdict& first, const Verdict& second,
                           const Shown& view) {
  if (second.grade.points >= first.grade.points)
    return "\nAddressSanitizer, with which it ran once more, finds no wrong use of memory.\n";
  return "\nIt ran once more under AddressSanitizer, which found that it uses memory wrongly. This "
         "verdict counts:\n\n" +
         verdict_text(exercise, second, view);
}

int check_one(const Chosen& chosen, const CheckOptions& options) {
  const Exercise& exercise = chosen.exercise;
  const int fit = std::max(40, Terminal::size().height - 2);
  const Shown view{chosen.task, options.verbose, options.lines > 0 ? options.lines : fit};
  JsonOutput output(options.json);
  try {
    const std::string file = file_to_grade(exercise, options);
    fmt::print("{} {}: {}\n\n", exercise.number(), exercise.title, relative(file));
    for (const std::string& sentence : use_variant(exercise, options.variant))
      fmt::print("  In this variant: {}\n", sentence);
    std::fflush(stdout);
    Verdict verdict = look_at(exercise, file, options.asan ? Look::sanitized : Look::first);
    fmt::print("{}", verdict_text(exercise, verdict, view));
    std::fflush(stdout);
    if (looks_twice(exercise, options, verdict)) {
      Verdict second = look_at(exercise, file, Look::sanitized);
      fmt::print("{}", said_by_second(exercise, verdict, second, view));
      verdict = std::move(second);
    }
    output.write(verdict_json(exercise, verdict));
    return verdict.solved(chosen.task) ? 0 : 1;
  } catch (const std::exception& error) {
    return refuse(options, error.what(), output);
  }
}

std::string row(const Exercise& exercise, const Verdict& verdict) {
  const bool complete = verdict.complete();
  return fmt::format("  {}  {:<28} {:>3} of {:>3} points{}\n",
                     paint(complete ? Color::green : Color::red, complete ? "✓" : "✗"), exercise.id,
                     verdict.grade.points, verdict.grade.of,
                     verdict.compiled() ? "" : "   does not compile");
}

// Everything that was begun, in a table.
int check_all(const CheckOptions& options) {
  JsonOutput output(options.json);
  nlohmann::json verdicts = nlohmann::json::array();
  int status = 0, points = 0, of = 0;
  for (const Exercise& exercise : all_exercises()) {
    if (!begun(exercise)) continue;
    const std::string file = exercise.work_copy();
    const bool sanitized = options.asan && !exercise.kernels;
    use_variant(exercise, options.variant);
    try {
      Verdict verdict = look_at(exercise, file, sanitized ? Look::sanitized : Look::first);
      if (looks_twice(exercise, options, verdict))
        verdict = look_at(exercise, file, Look::sanitized);
      fmt::print("{}", row(exercise, verdict));
      points += verdict.grade.points, of += verdict.grade.of;
      verdicts.push_back(verdict_json(exercise, verdict));
      if (!verdict.complete()) status = std::max(status, 1);
    } catch (const std::exception& error) {
      fmt::print("  ?  {:<28} could not be graded: {}\n", exercise.id, error.what());
      verdicts.push_back(refused(exercise.id, error.what()));
      status = could_not_grade;
    }
    std::fflush(stdout);
  }
  if (verdicts.size() > 1)
    fmt::print("     {:<28} {:>3} of {:>3} points\n", "together", points, of);
  if (verdicts.empty())
    fmt::print("Nothing is begun yet. ./yotta learn begins; ./yotta list shows all exercises.\n");
  output.write({{"exercises", verdicts}});
  return status;
}

}  // namespace

int check(const CheckOptions& options) {
  if (options.asan && options.no_asan) throw UsageError("--asan or --no-asan: not both");
  if (options.asan && !can_instrument())
    throw UsageError(
        "--asan needs AddressSanitizer, which this compiler does not have, or this build is a "
        "sanitizer's own. With g++ it is the package libasan (Fedora), or part of g++ (Debian)");
  if (options.name.empty()) {
    if (!options.file.empty() || options.hint || options.afresh)
      throw UsageError("say which exercise: ./yotta check 10 ...; ./yotta list shows them all");
    return check_all(options);
  }
  const Chosen chosen = choose_exercise(options.name);
  if (options.asan && chosen.exercise.kernels)
    throw UsageError(fmt::format(
        "--asan is not for {}, whose kernels run in the emulator: it checks each address itself",
        chosen.exercise.id));
  if (options.hint) return hint(options.name);
  if (options.afresh && !options.file.empty())
    throw UsageError("--afresh is about your own file, and --file grades another one");
  return check_one(chosen, options);
}

}  // namespace runner
