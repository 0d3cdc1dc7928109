// What the programs of all lessons do, with ranks or without (lesson.hpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "course/shared/lesson.hpp"
#include "course/shared/options.hpp"

namespace yotta {

// The options of every lesson: `json` is set by --json.
class LessonOptions : public Options {
 public:
  LessonOptions(const LessonTitle& title, std::string& json);
  void add_own(const std::vector<LessonOption>& options);
};

void print_title(const LessonTitle& title);
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
