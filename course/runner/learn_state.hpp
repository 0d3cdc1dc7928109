// `./yotta learn` without its terminal: what it knows, and what a key, a saved file or a verdict
// makes of that.
//
//     State ── next(state, event) ──► State, effects ── the verb does them ──► events ...
//       └───── screen(state, width, height), of learn_screen.hpp ──► text
//
// Nothing here reads a file or the clock. It never moves on to another task by itself.
#pragma once

#include <string>
#include <vector>

namespace runner::study {

struct Task {
  std::string id, title;
  int points = 0, of = 0;
  bool solved = false;
  std::vector<std::string> hints;
  int hints_read = 0;
  int minutes = 0;
  std::string difficulty = {};
  std::vector<std::string> needs = {};  // tasks whose parts it uses
  std::string function = {};            // that the student writes
};

struct Exercise {
  std::string id, title, difficulty;
  int minutes = 0;
  std::vector<Task> tasks;
  std::string file;                        // the student's: "work/10_collectives/..."
  std::string statement;                   // its README's text
  std::string solution;                    // where one stands; empty: not here
  std::vector<std::string> outcomes = {};  // what is learnt
  std::vector<std::string> variant = {};   // sentences that hold whatever the statement says

  int points() const;
  int of() const;
  bool complete() const;
  std::string number() const { return id.substr(0, 2); }
};

enum class Page { statement, verdict, hints, list, all, log, lesson, reset };
enum class Which { all, open, begun };  // exercises of the list

struct State {
  std::vector<Exercise> exercises;
  size_t at = 0, task = 0;  // the exercise and the task that are shown
  Page page = Page::statement;
  int scroll = 0;  // lines of the page that are above the screen; too many: its end is shown

  bool grading = false;
  std::string building;                  // while the grading waits for a build: how far that is
  bool graded = false, compiled = true;  // the last verdict
  bool saved = false;                    // the file, since this exercise is shown
  // Of the exercise that is shown: what to mend first, and all that was said; empty: none yet.
  std::string verdict, log;
  std::string note;           // one line for what just happened
  std::string lesson, table;  // texts of the pages of these names
  std::string key;            // of the variant; empty: none

  std::string search;  // of the list
  bool typing = false;
  Which which = Which::all;
  size_t chosen = 0;  // line of the list

  const Exercise& exercise() const { return exercises.at(at); }
  const Task& open() const { return exercise().tasks.at(task); }
};

struct TaskVerdict {
  std::string id;
  int points = 0;
  bool solved = false;
};

struct Event {
  enum class Kind { key, saved, graded, graded_all, said, lesson };
  Kind kind = Kind::key;
  std::string text = {};      // the key ("n", "up", "enter"), or what was said
  std::string exercise = {};  // of a verdict
  bool compiled = true;
  std::vector<TaskVerdict> tasks = {};  // none: it could not be graded
  std::string log = {};
};

struct Effect {
  enum class Kind { grade, grade_all, read_hint, reset, open_lesson, quit };
  Kind kind;
  std::string name;  // of the exercise or task
};

struct Step {
  State state;
  std::vector<Effect> effects;
};
Step next(State state, const Event& event);

// The exercises that the list shows: indices.
std::vector<size_t> listed(const State& state);

// The state to begin with: at this exercise, or at the first that is not complete.
State begin_at(std::vector<Exercise> exercises, const std::string& id);

}  // namespace runner::study
