// What the programs of all lessons do, with ranks or without (lesson.hpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "course/lesson/lesson.hpp"
#include "course/options/options.hpp"

namespace yotta {

// The options of every lesson: `json` is set by --json.
class LessonOptions : public Options {
 public:
  LessonOptions(const LessonTitle& title, std::string& json);
  void add_own(const std::vector<LessonOption>& options);
};

void show_title(Lesson& lesson, const LessonTitle& title);
void end_output();  // nothing comes any more
void write_json(const std::string& path, const LessonTitle& title, const Lesson& lesson);

// What a kind of lesson does around the body; empty: nothing.
struct LessonFrame {
  std::function<void(Options&)> add_options = {};
  std::function<void()> begin = {}, end = {};
};
int run_lesson_within(int argc, char** argv, const LessonTitle& title, const LessonFrame& frame,
                      const std::function<void(Lesson&)>& body,
                      const std::vector<LessonOption>& options);

}  // namespace yotta
