#include "runner/learn_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace runner::study {
namespace {

using Kind = Effect::Kind;

bool begun(const Exercise& exercise) {
  return exercise.points() > 0 || std::any_of(exercise.tasks.begin(), exercise.tasks.end(),
                                              [](const Task& task) { return task.hints_read > 0; });
}

constexpr int its_end = 1 << 20;  // lines; who draws the page knows how many it has

void show(State& state, Page page) {
  state.page = page;
  state.scroll = 0;
}

size_t first_open(const Exercise& exercise) {
  for (size_t i = 0; i < exercise.tasks.size(); ++i)
    if (!exercise.tasks[i].solved) return i;
  return 0;
}

// Another exercise is shown: its file is graded, which also copies the starter.
std::vector<Effect> go_to(State& state, size_t at) {
  state.at = at;
  state.task = first_open(state.exercise());
  state.verdict.clear(), state.log.clear(), state.note.clear();
  state.grading = true, state.compiled = true, state.saved = false;
  show(state, Page::statement);
  return {{Kind::grade, state.exercise().id}};
}

// The next task of this exercise that is open, else the next exercise that is not complete.
std::vector<Effect> next_task(State& state) {
  const Exercise& exercise = state.exercise();
  for (size_t i = state.task + 1; i < exercise.tasks.size(); ++i)
    if (!exercise.tasks[i].solved) {
      state.task = i;
      state.note.clear();
      show(state, Page::statement);
      return {};
    }
  for (size_t i = 1; i <= state.exercises.size(); ++i) {
    const size_t at = (state.at + i) % state.exercises.size();
    if (!state.exercises[at].complete()) return go_to(state, at);
  }
  state.note = "Every exercise is done.";
  return {};
}

// The task before this one, solved or not; it stays in this exercise.
void task_before(State& state) {
  state.note = state.task > 0 ? ""
                              : fmt::format("This is the first task of {}. l: other exercises.",
                                            state.exercise().number());
  if (state.task > 0) --state.task;
  show(state, Page::statement);
}

// One hint more; after the last one the page says where a solution stands.
std::vector<Effect> next_hint(State& state) {
  Task& task = state.exercises[state.at].tasks.at(state.task);
  show(state, Page::hints);
  state.scroll = its_end;
  if (task.hints_read > static_cast<int>(task.hints.size())) return {};
  ++task.hints_read;
  if (task.hints_read > static_cast<int>(task.hints.size())) return {};
  return {{Kind::read_hint, task.id}};
}

std::vector<Effect> grade(State& state) {
  state.grading = true;
  state.note.clear();
  return {{Kind::grade, state.exercise().id}};
}

std::vector<Effect> choose_from_list(State& state) {
  const std::vector<size_t> list = listed(state);
  if (list.empty()) return {};
  return go_to(state, list[std::min(state.chosen, list.size() - 1)]);
}

// The list, at the exercise that is shown.
void show_list(State& state) {
  show(state, Page::list);
  state.search.clear(), state.typing = false;
  const std::vector<size_t> list = listed(state);
  const auto here = std::find(list.begin(), list.end(), state.at);
  state.chosen = here == list.end() ? 0 : static_cast<size_t>(here - list.begin());
}

// A character of the search, which follows "/" in the list.
void type(State& state, const std::string& key) {
  if (key != "enter") state.chosen = 0;
  if (key == "enter" || key == "escape") state.typing = false;
  if (key == "escape") state.search.clear();
  if (key == "backspace" && !state.search.empty()) state.search.pop_back();
  if (key.size() == 1) state.search += key;
}

void move(State& state, int lines) {
  if (state.page != Page::list) {
    state.scroll = std::max(0, state.scroll + lines);
    return;
  }
  const auto last = static_cast<int>(listed(state).size()) - 1;
  state.chosen =
      static_cast<size_t>(std::clamp(static_cast<int>(state.chosen) + lines, 0, std::max(0, last)));
}

bool list_key(State& state, const std::string& key) {
  if (state.page != Page::list) return false;
  if (key == "/") state.typing = true, state.search.clear(), state.chosen = 0;
  if (key == "f") state.which = static_cast<Which>((static_cast<int>(state.which) + 1) % 3);
  if (key == "f") state.chosen = 0;
  return key == "/" || key == "f";
}

std::vector<Effect> letter(State& state, const std::string& key) {
  state.note.clear();  // of the key before
  const std::string& id = state.exercise().id;
  if (key == "q") return {{Kind::quit, ""}};
  if (key == "n") return next_task(state);
  if (key == "b") return task_before(state), std::vector<Effect>{};
  if (key == "h") return next_hint(state);
  if (key == "r") return grade(state);
  if (key == "s") show(state, Page::statement);
  if (key == "v") show(state, Page::verdict);
  if (key == "e") show(state, Page::log);
  if (key == "x") show(state, Page::reset);
  if (key == "l") show_list(state);
  if (key == "escape") show(state, state.verdict.empty() ? Page::statement : Page::verdict);
  if (key == "c") {
    show(state, Page::all);
    state.table.clear();
    return {{Kind::grade_all, ""}};
  }
  if (key == "o") return {{Kind::open_lesson, id}};
  return {};
}

std::vector<Effect> pressed(State& state, const std::string& key) {
  static const std::map<std::string, int> moves = {
      {"up", -1}, {"down", 1}, {"k", -1}, {"j", 1}, {"pageup", -10}, {"pagedown", 10}, {" ", 10}};
  if (state.page == Page::list && state.typing) {
    if (key.size() > 1 && moves.count(key) > 0)
      return move(state, moves.at(key)), std::vector<Effect>{};
    type(state, key);
    const bool found = key == "enter" && listed(state).size() == 1;
    return found ? choose_from_list(state) : std::vector<Effect>{};
  }
  if (state.page == Page::reset) {
    show(state, state.verdict.empty() ? Page::statement : Page::verdict);
    if (key != "y") return state.note = "Nothing was changed.", std::vector<Effect>{};
    state.grading = true;
    return {{Kind::reset, state.exercise().id}, {Kind::grade, state.exercise().id}};
  }
  if (moves.count(key) > 0) return move(state, moves.at(key)), std::vector<Effect>{};
  if (list_key(state, key)) return {};
  if (state.page == Page::list && key == "enter") return choose_from_list(state);
  return letter(state, key);
}

// What the verdict says of the task that is shown. It stays the one that is shown.
std::string news(const State& state, const std::vector<std::string>& solved_before) {
  const Task& task = state.open();
  const auto was = std::find(solved_before.begin(), solved_before.end(), task.id);
  if (state.exercise().complete())
    return fmt::format("All of {} is solved. n: the next exercise.", state.exercise().number());
  if (task.solved && was == solved_before.end())
    return fmt::format("{} is solved. n: the next task.", task.id);
  return "";
}

// Writes the points into an exercise; returns the tasks that were solved before.
std::vector<std::string> take_points(Exercise& exercise, const std::vector<TaskVerdict>& tasks) {
  std::vector<std::string> solved_before;
  for (Task& task : exercise.tasks) {
    if (task.solved) solved_before.push_back(task.id);
    for (const TaskVerdict& one : tasks)
      if (one.id == task.id) task.points = one.points, task.solved = one.solved;
  }
  return solved_before;
}

void take_verdict(State& state, const Event& event) {
  const auto graded = std::find_if(state.exercises.begin(), state.exercises.end(),
                                   [&](const Exercise& one) { return one.id == event.exercise; });
  if (graded == state.exercises.end()) return;
  const std::vector<std::string> solved_before = take_points(*graded, event.tasks);
  if (&state.exercise() != &*graded) return;
  const bool first = state.verdict.empty() && state.page == Page::statement;
  state.grading = false;
  state.compiled = event.compiled, state.graded = !event.tasks.empty();
  state.verdict = event.text, state.log = event.log;
  const std::string note = news(state, solved_before);
  if (!note.empty()) state.note = note;
  if (first && state.exercise().points() == 0 && state.compiled && state.graded)
    state.note = "graded: v shows the verdict";  // the task is to be read first
  else if (state.page == Page::statement || state.page == Page::verdict || state.page == Page::log)
    show(state, Page::verdict);
}

}  // namespace

int Exercise::points() const {
  int sum = 0;
  for (const Task& task : tasks) sum += task.points;
  return sum;
}
int Exercise::of() const {
  int sum = 0;
  for (const Task& task : tasks) sum += task.of;
  return sum;
}
bool Exercise::complete() const {
  return std::all_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.solved; });
}

std::vector<size_t> listed(const State& state) {
  std::vector<size_t> list;
  for (size_t i = 0; i < state.exercises.size(); ++i) {
    const Exercise& one = state.exercises[i];
    const std::string text = lower(one.id + " " + one.title + " " + one.difficulty);
    if (text.find(lower(state.search)) == std::string::npos) continue;
    if (state.which == Which::open && one.complete()) continue;
    if (state.which == Which::begun && !begun(one)) continue;
    list.push_back(i);
  }
  return list;
}

State begin_at(std::vector<Exercise> exercises, const std::string& id) {
  State state;
  state.exercises = std::move(exercises);
  const auto named = [&](const Exercise& one) { return one.id == id; };
  const auto open = [](const Exercise& one) { return !one.complete(); };
  auto at = std::find_if(state.exercises.begin(), state.exercises.end(), named);
  if (at == state.exercises.end())
    at = std::find_if(state.exercises.begin(), state.exercises.end(), open);
  if (at != state.exercises.end()) state.at = static_cast<size_t>(at - state.exercises.begin());
  state.task = first_open(state.exercise());
  state.grading = true;
  return state;
}

Step next(State state, const Event& event) {
  std::vector<Effect> effects;
  switch (event.kind) {
    case Event::Kind::key: effects = pressed(state, event.text); break;
    case Event::Kind::saved:
      effects = grade(state);
      state.saved = true;
      show(state, Page::verdict);
      break;
    case Event::Kind::graded: take_verdict(state, event); break;
    case Event::Kind::graded_all:
      for (Exercise& each : state.exercises) take_points(each, event.tasks);
      state.table = event.text;
      break;
    case Event::Kind::said: state.note = event.text; break;
    case Event::Kind::lesson:
      state.lesson = event.text;
      show(state, Page::lesson);
      break;
  }
  return {std::move(state), std::move(effects)};
}

}  // namespace runner::study
