#include "runner/learn.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "course/options/console.hpp"
#include "runner/background.hpp"
#include "runner/grade.hpp"
#include "runner/learn_screen.hpp"
#include "runner/learn_state.hpp"
#include "runner/places.hpp"
#include "runner/process.hpp"
#include "runner/progress.hpp"
#include "runner/solution.hpp"
#include "runner/student_verbs.hpp"
#include "runner/submission.hpp"
#include "runner/terminal.hpp"
#include "runner/topics.hpp"
#include "runner/variant.hpp"
#include "runner/verdict.hpp"
#include "runner/watch.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

using study::Effect;
using study::Event;
using study::State;

std::string statement_of(const Exercise& exercise) {
  const std::string path = exercise.folder + "/README.md";
  return fs::exists(path) ? study::plain_markdown(read_text(path)) : "";
}

Lines shown_hints(const Exercise& exercise, const std::string& task) {
  Lines hints = read_hints(exercise, task);
  for (std::string& hint : hints) {
    hint = study::plain_markdown(hint);
    while (hint.ends_with('\n')) hint.pop_back();
  }
  return hints;
}

study::Exercise shown(const Exercise& exercise, const std::string& key) {
  const Progress progress = read_progress(exercise);
  const Grade grade = progress.grade(exercise).value_or(no_points(exercise));
  study::Exercise one{exercise.id,
                      exercise.title,
                      exercise.difficulty,
                      exercise.minutes,
                      {},
                      relative(exercise.work_copy()),
                      statement_of(exercise),
                      where_the_solution_is(exercise),
                      exercise.outcomes,
                      sentences(exercise, told_by(exercise, key))};
  for (const TaskResult& result : grade.tasks)
    one.tasks.push_back({result.task.id, result.task.title, result.points, result.task.points,
                         result.solved, shown_hints(exercise, result.task.id),
                         progress.hints(result.task.id), result.task.minutes,
                         result.task.difficulty, result.task.needs, name_of_function(result.task)});
  return one;
}

State first_state(const std::string& name, const std::string& key) {
  std::vector<study::Exercise> all;
  for (const Exercise& exercise : all_exercises()) all.push_back(shown(exercise, key));
  if (all.empty()) throw std::runtime_error("there is no exercise in this folder");
  State state = study::begin_at(
      std::move(all), name.empty() ? current_exercise() : choose_exercise(name).exercise.id);
  state.key = printable(key);
  return state;
}

std::string lesson_text(const std::string& exercise) {
  const fs::path folder = fs::path(YOTTA_SOURCE_DIR) / "lessons";
  for (const Topic& topic : find_lessons(YOTTA_SOURCE_DIR))
    if (topic.number == exercise.substr(0, 2))
      return fmt::format("lessons/{}/README.md; to run it: ./yotta lesson {}\n\n", topic.id,
                         topic.number) +
             study::plain_markdown(read_text(folder / topic.id / "README.md"));
  return "There is no lesson of this number.";
}

// What another call of this program has said, which begins with its name.
std::string without_name(const std::string& said) {
  const std::string name = "yotta: ";
  return said.starts_with(name) ? said.substr(name.size()) : said;
}

// What the first verdict needs, with Ninja's lines, before the screen is taken. If it cannot be
// built, the verdict says why.
void build_first(const std::string& id) {
  const std::string tests = fmt::format("exercise_{}_library", id);
  if (fs::exists(fmt::format("{}/exercises/{}", YOTTA_BUILD_DIR, tests))) return;
  fmt::print(stderr, "Building the library and the tests of {}, once. It takes some minutes.\n",
             id);
  build(tests);
}

// The student's file, copied from the starter if there is none.
std::string begun_file(const Exercise& exercise) {
  if (fs::exists(exercise.work_copy())) return exercise.work_copy();
  const std::string said = run_here({"reset", exercise.id, "--yes"});
  if (!fs::exists(exercise.work_copy())) throw std::runtime_error(without_name(said));
  return exercise.work_copy();
}

// The loop: keys, saves and verdicts go into the state, and what comes out of it is done.
class Session {
 public:
  Session(State state, bool look) : state_(std::move(state)), watch_(look) {
    start(state_.exercise().id);
  }

  void run() {
    Terminal terminal;
    while (!over_) {
      const Terminal::Size size = Terminal::size();
      state_.scroll = std::min(state_.scroll, study::last_scroll(state_, size.width, size.height));
      state_.building = grading_ ? building_now() : "";
      terminal.draw(study::screen(state_, size.width, size.height));
      wait();
      bool ended = false;
      for (const std::string& key : terminal.keys(ended)) take({Event::Kind::key, key});
      over_ = over_ || (ended && hung_up_);
      if (!over_ && watch_.saved()) take({Event::Kind::saved});
      if (over_ || !grading_) continue;
      if (grading_->ended())
        take_verdict();
      else if (graded_.empty())
        state_.table = grading_->said();  // a line for each exercise, as they come
    }
  }

 private:
  void wait() {
    pollfd all[] = {{STDIN_FILENO, POLLIN, 0},
                    {watch_.events(), POLLIN, 0},
                    {grading_ ? grading_->output() : -1, POLLIN, 0}};
    constexpr int while_grading = 500;  // milliseconds: a build goes on meanwhile
    const int patience = grading_ ? std::min(watch_.patience(), while_grading) : watch_.patience();
    if (poll(all, std::size(all), patience) < 0) return;  // a signal: the window's size
    hung_up_ = (all[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }

  void take(const Event& event) {
    study::Step step = study::next(std::move(state_), event);
    state_ = std::move(step.state);
    for (const Effect& effect : step.effects) perform(effect);
  }

  void perform(const Effect& effect) {
    switch (effect.kind) {
      case Effect::Kind::grade: return start(effect.name);
      case Effect::Kind::grade_all: return start("");
      case Effect::Kind::read_hint: return note_hint(effect.name);
      case Effect::Kind::reset: return take({Event::Kind::said, reset(effect.name)});
      case Effect::Kind::open_lesson: return take({Event::Kind::lesson, lesson_text(effect.name)});
      case Effect::Kind::quit: over_ = true;
    }
  }

  // Grades one exercise, or everything that was begun; a grading that is under way is stopped.
  void start(const std::string& id) {
    grading_.reset();
    if (!id.empty() && watched_ != id) {
      watch_.follow(begun_file(choose_exercise(id).exercise));
      set_current_exercise(watched_ = id);
    }
    graded_ = id;
    second_look_ = false;
    Command words = {"check"};
    if (!id.empty())
      words.insert(words.end(), {id, "--no-asan", "--lines", "400"});  // the page scrolls
    words.push_back("--json");
    grading_.emplace(words);
  }

  // Where exercise.json asks for AddressSanitizer, a file that has earned points is looked at once
  // more behind its verdict.
  void take_verdict() {
    Event event = grading_->verdict();
    event.kind = graded_.empty() ? Event::Kind::graded_all : Event::Kind::graded;
    event.exercise = graded_;
    grading_.reset();
    const bool earned = std::any_of(event.tasks.begin(), event.tasks.end(),
                                    [](const auto& task) { return task.points > 0; });
    const bool again = !graded_.empty() && earned && !std::exchange(second_look_, true) &&
                       can_instrument() && choose_exercise(graded_).exercise.asan;
    take(event);
    if (again && !grading_)
      grading_.emplace(Command{"check", graded_, "--asan", "--lines", "400", "--json"});
  }

  void note_hint(const std::string& task) {
    OwnProgress progress(choose_exercise(state_.exercise().id).exercise);
    progress.set_hints(task, progress.hints(task) + 1);
  }

  std::string reset(const std::string& id) {
    watched_.clear();  // the starter is followed from its first text: it is no save
    const Lines said = lines_of(run_here({"reset", id, "--yes"}));
    return said.empty() ? "" : said.front();
  }

  State state_;
  Watch watch_;
  std::optional<Background> grading_;
  std::string watched_, graded_;  // exercises
  bool second_look_ = false;      // what is being graded is, or was, already
  bool over_ = false, hung_up_ = false;
};

// Without a terminal: in plain lines.
int in_lines(const State& state, const LearnOptions& options) {
  fmt::print("{}\n", study::page_text(state, 100));
  std::fflush(stdout);
  const Exercise exercise = choose_exercise(state.exercise().id).exercise;
  set_current_exercise(exercise.id);
  Watch watch(options.poll);
  watch.follow(begun_file(exercise));
  const Command check = {own_program(), "check", exercise.id};
  int status = run(check);
  if (options.watch) fmt::print("\nIt is graded again each time you save it; Ctrl-C ends.\n");
  while (options.watch) {
    std::fflush(stdout);
    pollfd events = {watch.events(), POLLIN, 0};
    poll(&events, 1, watch.patience());
    if (watch.saved()) status = run(check);
  }
  return status;
}

}  // namespace

int learn(const LearnOptions& options) {
  setenv("YOTTA_VARIANT", options.variant.c_str(), 1);  // `check`, which it calls, has it too
  State state = first_state(options.name, options.variant);
  build_first(state.exercise().id);
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  if (!terminal) return in_lines(state, options);
  Session(std::move(state), options.poll).run();
  fmt::print("Your work is in {}. ./yotta learn goes on where you were.\n",
             relative(work_folder()));
  return 0;
}

}  // namespace runner
