#include "runner/grade_class.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>

#include "course/options/console.hpp"
#include "runner/gradebook.hpp"
#include "runner/hidden_cases.hpp"
#include "runner/json_output.hpp"
#include "runner/places.hpp"
#include "runner/process_pool.hpp"
#include "runner/progress.hpp"
#include "runner/solution.hpp"
#include "runner/submissions.hpp"
#include "runner/variant.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double check_seconds = 900;  // of one submission: compiling, and every case in time
constexpr int could_not_grade_some = 3, did_not_recognise_some = 4, wrong_usage = 2,
              was_stopped = 130;

// An exercise, and what its submissions are graded by.
struct GradedExercise {
  Exercise exercise;
  std::string starter;      // its text
  std::string fingerprint;  // of the grader
  std::string broken;       // why its grader cannot be built
  bool handed_in = true;    // by somebody
};

GradedExercise prepare(const Exercise& exercise, const std::string& graded_by, bool handed_in) {
  GradedExercise graded{exercise, starter_of(exercise), "", "", handed_in};
  if (!handed_in) return graded;
  try {
    const Grader grader = build_grader(exercise);
    graded.fingerprint = print_of(graded_by + print_of(read_text(grader.library)) +
                                  read_text(exercise.folder + "/exercise.json"));
  } catch (const std::exception& error) {
    graded.broken = error.what();
  }
  return graded;
}

nlohmann::json no_tasks(const Exercise& exercise) {
  nlohmann::json list = nlohmann::json::array();
  for (const Task& task : exercise.tasks)
    list.push_back({{"id", task.id},
                    {"title", task.title},
                    {"points", 0},
                    {"of", task.points},
                    {"cases", 0},
                    {"passed", 0},
                    {"solved", false},
                    {"message", ""}});
  return list;
}

// Nobody knows what it is worth.
bool has_no_points(Outcome outcome) {
  return outcome == Outcome::could_not_grade || outcome == Outcome::not_recognised ||
         outcome == Outcome::not_handed_in;
}

// A mark without points, for what was not run.
Mark mark_without(const Submission& submission, const Exercise& exercise, Outcome outcome,
                  const std::string& why) {
  Mark mark{submission.student, submission.exercise, outcome};
  if (!has_no_points(outcome)) mark.points = 0;
  for (const Task& task : exercise.tasks) mark.of += task.points;
  mark.message = why;
  mark.tasks = no_tasks(exercise);
  return mark;
}

Outcome outcome_of(const nlohmann::json& verdict) {
  if (!verdict.value("refused", "").empty()) return Outcome::refused;
  if (!verdict.value("compiled", false)) return Outcome::not_compiling;
  return verdict.value("complete", false) ? Outcome::complete : Outcome::partial;
}

Mark mark_from(const Submission& submission, const Exercise& exercise,
               const nlohmann::json& verdict, const std::string& log) {
  if (!verdict.is_object() || !verdict.value("graded", false)) {
    const std::string why = verdict.is_object() ? verdict.value("error", "") : "";
    return mark_without(submission, exercise, Outcome::could_not_grade, why.empty() ? log : why);
  }
  Mark mark = mark_without(submission, exercise, outcome_of(verdict), "");
  mark.points = verdict.value("points", 0), mark.of = verdict.value("of", mark.of);
  mark.compiled = verdict.value("compiled", false);
  mark.message = verdict.value("compile_errors", "");
  if (mark.outcome == Outcome::refused) mark.message = verdict.value("refused", "");
  mark.tasks = verdict.value("tasks", mark.tasks), mark.cases = verdict.value("cases", mark.cases);
  return mark;
}

// What needs no program.
std::optional<Mark> mark_at_once(const Submission& submission, const GradedExercise& graded) {
  const auto without = [&](Outcome outcome, const std::string& why) {
    return mark_without(submission, graded.exercise, outcome, why);
  };
  switch (submission.handed) {
    case Handed::nothing:
      return without(graded.handed_in ? Outcome::empty : Outcome::not_handed_in, submission.why);
    case Handed::unrecognised: return without(Outcome::not_recognised, submission.why);
    case Handed::refused: return without(Outcome::refused, submission.why);
    case Handed::unreadable: return without(Outcome::could_not_grade, submission.why);
    case Handed::file: break;
  }
  if (is_unchanged(submission, graded.starter)) {
    Mark mark = without(Outcome::empty, "");
    mark.compiled = submission.text.find_first_not_of(" \n\r\t") != std::string::npos;
    return mark;
  }
  if (!graded.broken.empty()) return without(Outcome::could_not_grade, graded.broken);
  return {};
}

// Its times are the machine's as much as the student's.
bool took_too_long(const Mark& mark) {
  return std::any_of(mark.cases.begin(), mark.cases.end(), [](const nlohmann::json& one) {
    return one.value("message", "").find("did not end within") != std::string::npos;
  });
}

// What lies in OUT.
class Results {
 public:
  explicit Results(const std::string& out) : out_(out) {
    fs::create_directories(out_);
    if (!FileLock::is_free(out_ + "/.lock"))
      throw std::runtime_error("another `./yotta grade` is at work in " + out_);
    lock_ = std::make_unique<FileLock>(out_ + "/.lock");
  }
  std::string place(const std::string& name) const { return out_ + "/" + name; }
  std::string of_student(const std::string& student, const std::string& name) const {
    return fmt::format("{}/students/{}/{}", out_, student, name);
  }

  // What an earlier run has found out, if it was about the same.
  std::optional<Mark> known(const Submission& submission, const std::string& key) const {
    try {
      const auto json = nlohmann::json::parse(read_text(file_of(submission)));
      if (json.at("key") != key) return {};
      Mark mark = mark_of(json);
      mark.student = submission.student;  // which may be no text
      return mark;
    } catch (const std::exception&) {
      return {};
    }
  }
  // Whole or not at all: who is killed meanwhile leaves the old one.
  void keep(const Submission& submission, const std::string& key, const Mark& mark) const {
    nlohmann::json json = mark_json(mark);
    json["key"] = key;
    const std::string file = file_of(submission);
    write_text(file + ".new", json_text(json));
    fs::rename(file + ".new", file);
  }

 private:
  std::string file_of(const Submission& submission) const {
    return of_student(submission.student, submission.exercise + ".json");
  }
  std::string out_;
  std::unique_ptr<FileLock> lock_;
};

struct Grading {
  const Submission* submission = nullptr;
  const GradedExercise* graded = nullptr;
  std::optional<Mark> mark;

  std::string key() const {
    return fmt::format("{}.{}.{}", print_of(submission->text),
                       print_of(submission->state + '\n' + submission->progress),
                       graded->fingerprint);
  }
};

// The check of one submission in a folder of its own: a copy of the file, the record of hints, the
// verdict.
class Check {
 public:
  Check(Grading& grading, const std::string& variant)
      : grading_(grading),
        variant_(key_of(variant, grading.submission->student)),
        folder_(YOTTA_BUILD_DIR "/grading") {
    const Submission& submission = *grading.submission;
    write_text(file(), submission.text);
    if (!submission.state.empty()) write_text(place() + ".state.json", submission.state);
    if (!submission.progress.empty())
      write_text(folder_.path() + "/progress.json", submission.progress);
  }
  Command command() const {
    return {"env",
            fmt::format("YOTTA_WORK={}/work", folder_.path()),
            fmt::format("YOTTA_VARIANT={}", variant_),
            YOTTA_BUILD_DIR "/course/runner",
            "check",
            grading_.graded->exercise.number(),
            "--file",
            file(),
            "--json",
            verdict()};
  }
  std::string log() const { return folder_.path() + "/log"; }
  void finish() {
    const std::string text = fs::exists(verdict()) ? read_text(verdict()) : "";
    const auto json = nlohmann::json::parse(without_folder(text), nullptr, false);
    grading_.mark = mark_from(*grading_.submission, grading_.graded->exercise, json,
                              without_folder(read_text(log())));
  }

 private:
  // Compilers name the file that they read: a grade says the same whenever it is made.
  std::string without_folder(std::string text) const {
    for (const std::string& prefix : {place(), relative(place())})
      for (size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;)
        text.erase(at, prefix.size());
    return text;
  }
  std::string place() const {
    return fmt::format("{}/{}/", folder_.path(), grading_.graded->exercise.id);
  }
  std::string file() const { return place() + grading_.graded->exercise.file_name(); }
  std::string verdict() const { return folder_.path() + "/verdict.json"; }
  Grading& grading_;
  std::string variant_;
  RunFolder folder_;
};

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Grades these, and keeps what needs no second try. False: stopped.
bool run_checks(std::vector<Grading*> open, int jobs, bool last_try, const Results& results,
                const std::string& variant, yotta::console::Progress& progress, int64_t& done) {
  std::vector<PoolJob> pool;
  std::vector<std::unique_ptr<Check>> checks(open.size());
  for (size_t i = 0; i < open.size(); ++i) {
    const auto ended = [&, i](int) {
      Grading& grading = *open[i];
      checks[i]->finish();
      checks[i].reset();
      const bool sure = grading.mark->points && !took_too_long(*grading.mark);
      if (grading.mark->points && (sure || last_try))
        results.keep(*grading.submission, grading.key(), *grading.mark);
      if (sure || last_try) progress.update(++done, grading.mark->exercise);
    };
    checks[i] = std::make_unique<Check>(*open[i], variant);
    pool.push_back({checks[i]->command(), checks[i]->log(), check_seconds, ended});
  }
  return run_pool(pool, jobs);
}

// All that no earlier run has graded. False: stopped.
bool grade_open(std::vector<Grading>& gradings, int jobs, const std::string& variant,
                const Results& results) {
  std::vector<Grading*> open, again;
  for (Grading& grading : gradings) {
    grading.mark = mark_at_once(*grading.submission, *grading.graded);
    if (!grading.mark) grading.mark = results.known(*grading.submission, grading.key());
    if (!grading.mark) open.push_back(&grading);
  }
  int64_t done = std::ssize(gradings) - std::ssize(open);
  yotta::console::Progress progress("Grading", std::ssize(gradings));
  progress.update(done, "graded before, or nothing to run");
  if (!run_checks(open, jobs, jobs == 1, results, variant, progress, done)) return false;
  if (jobs == 1) return true;
  std::copy_if(open.begin(), open.end(), std::back_inserter(again), [](const Grading* grading) {
    return !grading->mark->points || took_too_long(*grading->mark);
  });
  return run_checks(again, 1, true, results, variant, progress, done);
}

void write_all(const Marks& marks, const std::vector<Exercise>& exercises,
               const GradeOptions& options, const Results& results) {
  const std::string json = json_text(marks_json(marks));
  write_text(results.place("grades.json"), json);
  if (!options.json.empty()) write_text(options.json, json);
  const Logins logins = options.names.empty() ? Logins{} : read_logins(options.names);
  write_text(results.place("canvas.csv"), canvas_csv(marks, logins));
  write_text(results.place("moodle.csv"), moodle_csv(marks, logins));
  write_text(results.place("junit.xml"), junit_xml(marks));
  std::map<std::string, Marks> by_student;
  for (const Mark& mark : marks) by_student[mark.student].push_back(mark);
  for (const auto& [student, own] : by_student) {
    write_text(results.of_student(student, "feedback.md"), feedback(own, exercises));
    write_text(results.of_student(student, "results.json"),
               json_text(gradescope_results(own, options.visibility)));
  }
}

Marks marks_of(const std::vector<Grading>& gradings) {
  Marks marks;
  for (const Grading& grading : gradings) {
    marks.push_back(*grading.mark);
    marks.back().note = grading.submission->note;
  }
  return marks;
}

// "ann, 10_collectives: graded was 10_collectives/ring (1).hpp".
void say_which_were_graded(const Marks& marks) {
  for (const Mark& mark : marks)
    if (!mark.note.empty())
      fmt::print("{}, {}: {}\n", printable(mark.student), mark.exercise, printable(mark.note));
}

void say_what_nobody_handed_in(const Marks& marks) {
  std::set<std::string> exercises;
  for (const Mark& mark : marks)
    if (mark.outcome == Outcome::not_handed_in) exercises.insert(mark.exercise);
  if (!exercises.empty())
    fmt::print("Nobody has handed in {}: no points are written there, 0 neither.\n",
               fmt::join(exercises, ", "));
}

// Files beside the students' folders.
void say_what_is_loose(const std::string& folder) {
  const std::vector<std::string> names = loose_files(folder);
  if (!names.empty())
    fmt::print(stderr,
               "yotta: {} lie in {} itself and are nobody's: they are not graded. `./yotta collect "
               "{} --out CLASS` sorts them by student\n",
               printable(fmt::format("{}", fmt::join(names, ", "))), folder, folder);
}

bool is_handed_in(const Exercise& exercise, const std::vector<Submission>& submissions) {
  return std::any_of(submissions.begin(), submissions.end(), [&](const Submission& one) {
    return one.exercise == exercise.id && one.handed != Handed::nothing &&
           one.handed != Handed::unrecognised;
  });
}

int summary(const Marks& marks, const Results& results) {
  const auto count = [&](Outcome outcome) {
    return std::count_if(marks.begin(), marks.end(),
                         [&](const Mark& mark) { return mark.outcome == outcome; });
  };
  const auto open = count(Outcome::could_not_grade), unknown = count(Outcome::not_recognised);
  fmt::print(
      "{}\n{} submission{}. Grades, pages for students and files for Canvas, Moodle and "
      "Gradescope: {}\n",
      marks_table(marks), marks.size(), marks.size() == 1 ? "" : "s", results.place(""));
  say_which_were_graded(marks);
  say_what_nobody_handed_in(marks);
  if (unknown > 0)
    fmt::print(
        "Not recognised, {}: there are files, and none is known as this exercise's. They have no "
        "points until a person has looked; \"message\" in grades.json names the files.\n",
        unknown);
  if (open == 0) return unknown == 0 ? 0 : did_not_recognise_some;
  fmt::print(
      "{} could not be graded, and the students may not be to blame: see \"message\" in "
      "grades.json.\n",
      open);
  return could_not_grade_some;
}

int grade_in(const GradeOptions& options, const std::vector<Exercise>& exercises) {
  const Results results(fs::absolute(options.out));
  const std::vector<Submission> submissions = find_submissions(options.folder, exercises);
  say_what_is_loose(options.folder);
  const std::string graded_by =
      print_of(read_text(YOTTA_BUILD_DIR "/course/runner")) + options.variant;
  const HiddenCases hidden(options.hidden);
  std::vector<GradedExercise> graded;
  for (const Exercise& exercise : exercises)
    graded.push_back(prepare(exercise, graded_by, is_handed_in(exercise, submissions)));
  std::vector<Grading> gradings;
  for (size_t i = 0; i < submissions.size(); ++i)  // students' exercises follow each other
    gradings.push_back({&submissions[i], &graded[i % graded.size()], {}});
  const int jobs = options.jobs > 0 ? options.jobs : cores();
  if (!grade_open(gradings, jobs, options.variant, results)) {
    fmt::print(stderr, "yotta: stopped; the same command goes on where this one was\n");
    return was_stopped;
  }
  const Marks marks = marks_of(gradings);
  write_all(marks, exercises, options, results);
  return summary(marks, results);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// Wrong lines are said at once, and who has no login.
void expect_logins(const GradeOptions& options, const std::vector<Exercise>& exercises) {
  const Logins logins = read_logins(options.names);
  std::set<std::string> missing;
  for (const Submission& one : find_submissions(options.folder, exercises))
    if (!logins.contains(one.student)) missing.insert(one.student);
  if (!missing.empty())
    fmt::print(stderr, "yotta: {} has no login for {}: the grades have the folder's name\n",
               options.names, fmt::join(missing, ", "));
}

}  // namespace

int grade_class(const GradeOptions& given) {
  GradeOptions options = given;
  options.folder = without_slash(options.folder);
  if (options.out.empty()) options.out = fs::absolute(options.folder).string() + ".grades";
  try {
    const std::vector<Exercise> exercises = chosen_exercises(options.exercises, options.folder);
    if (!options.names.empty()) expect_logins(options, exercises);
    if (!exercises.empty()) return grade_in(options, exercises);
    throw std::runtime_error(fmt::format(
        "no student in {} has a folder of an exercise; expected {}/STUDENT/10_collectives/"
        "collectives_ring.hpp, say",
        options.folder, options.folder));
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return wrong_usage;
  }
}

}  // namespace runner
