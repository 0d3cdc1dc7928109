// What is remembered of a student's work: one readable file for all exercises, beside the work.
//
//     work/progress.json             {"current": "10_collectives",
//     work/10_collectives/            "exercises": {"10_collectives": {"open task": "10.2",
//                                     "hints": {"10.1": 2},
//     work/13_ddp/                                  "last compiled": {"when": ..., "tasks": [...]},
//                                                   "starter": ...}}}
//
// A variant has points of its own: what was earned by its key is kept under "last compiled by " and
// the key's print. The key is the one of YOTTA_VARIANT, which use_variant() sets.
//
// Newer and older versions of the course share it: fields that this one does not know are kept, and
// what is not as expected counts as not there. It is written to another name and renamed, under a
// lock: who reads it finds it whole.
//
// Older versions wrote work/10_collectives/.state.json; it is taken over.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/places.hpp"

namespace runner {

constexpr const char* no_open_task = "none";

// Of one exercise.
class Progress {
 public:
  explicit Progress(const nlohmann::json& entry = {});

  std::string text(const char* key) const;
  nlohmann::json value(const char* key) const { return json_.value(key, nlohmann::json()); }
  int hints(const std::string& task) const;  // that were read
  // The task that --hint and `learn` are about: the first that is not solved. no_open_task: all
  // are.
  std::string open_task(const Exercise& exercise) const;
  // The last version that compiled, by today's key. None: there was none, or it had none of the
  // tasks of today.
  std::optional<Grade> grade(const Exercise& exercise) const;
  std::string graded_when() const;

  const nlohmann::json& json() const { return json_; }

 protected:
  nlohmann::json json_;
};

// The folder of the student's work: work/, or the one that YOTTA_WORK names.
std::string work_folder();
// The student's own.
Progress read_progress(const Exercise& exercise);
// Of a file that lies in somebody's folder work/NN_topic. None: there is nothing beside it.
std::optional<Progress> progress_beside(const Exercise& exercise, const std::string& file);

// The student's own, to be changed; nobody else touches it meanwhile.
class OwnProgress : private FileLock, public Progress {
 public:
  explicit OwnProgress(const Exercise& exercise);
  void set(const std::string& key, const nlohmann::json& value);
  void set_hints(const std::string& task, int count);

 private:
  void take_over();
  void save();

  std::string id_, old_file_;
};

// The exercise that `learn` shows first: the one it showed last. Empty: none.
std::string current_exercise();
void set_current_exercise(const std::string& id);

// Where what has compiled is kept: of this key, or of none.
std::string last_compiled();

// Two texts are equal if their prints are; kept instead of the starter's text. FNV-1a in 16 hex
// digits: work folders hold prints of earlier versions.
std::string print_of(const std::string& text);

}  // namespace runner
