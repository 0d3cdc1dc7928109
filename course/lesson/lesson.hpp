// The frame of a lesson's program: --help, --json FILE, its own options, sections, and named
// numbers.
//
//     int main(int argc, char** argv) {
//       return run_lesson(argc, argv, {"10", "Collectives", "what each collective sends"},
//                         [](Lesson& lesson) {
//                           lesson.section("A ring");
//                           lesson.say("rank {} sends {} bytes", 0, sent);
//                           lesson.number("ring.bytes_sent", sent);
//                         });
//     }
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "course/options/console.hpp"

namespace yotta {

struct LessonTitle {
  const char* number;
  const char* name;
  const char* about;
};

class Lesson {
 public:
  // A heading; the first screen is short, so sections are a few lines each.
  void section(std::string_view title);
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    show(fmt::format(text, std::forward<Args>(args)...) + "\n");
  }
  void show(const std::string& text);

  // A number that was shown, for --json.
  void number(const std::string& name, double value);
  void numbers(const std::string& name, const std::vector<double>& values);

  const std::map<std::string, double>& all_numbers() const { return numbers_; }
  const std::map<std::string, std::vector<double>>& all_lists() const { return lists_; }

 private:
  std::map<std::string, double> numbers_;
  std::map<std::string, std::vector<double>> lists_;
};

// An option of a lesson: --ranks 4, or --sliders FILE, which sets `file`. It is read when the body
// runs.
struct LessonOption {
  const char* name;
  const char* about;
  int64_t* value;
  int64_t least, most;
  std::string* file = nullptr;
};

// Parses the command line, runs the body, writes --json; an Error is printed in one piece and ends
// with exit code 1, wrong options with 2.
int run_lesson(int argc, char** argv, const LessonTitle& title,
               const std::function<void(Lesson&)>& body,
               const std::vector<LessonOption>& options = {});
// The same for a lesson whose ranks leave nothing in memory for each other or for what is printed,
// but rank 0's results and the ledgers: they can be processes, so it has --comm (comm_choice.hpp).
int run_lesson_on_processes(int argc, char** argv, const LessonTitle& title,
                            const std::function<void(Lesson&)>& body,
                            const std::vector<LessonOption>& options = {});
// The same for a lesson that starts no ranks: it has no --cluster and no --timeline, and its
// program links nothing of comm/.
int run_lesson_without_ranks(int argc, char** argv, const LessonTitle& title,
                             const std::function<void(Lesson&)>& body,
                             const std::vector<LessonOption>& options = {});

}  // namespace yotta
