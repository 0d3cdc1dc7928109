#include "course/lesson/lesson.hpp"

#include "course/lesson/lesson_frame.hpp"
#include "course/options/json_object.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {
// At a terminal, how long a reader has waited for what comes next.
console::Progress& busy() {
  static console::Progress progress("computing", 0);
  return progress;
}
}  // namespace

void Lesson::section(std::string_view title) {
  show(fmt::format("\n{}\n", console::paint(console::Color::bold, fmt::format("== {}", title))));
}
// A line that does not end is for the reader to continue.
void Lesson::show(const std::string& text) {
  busy().finish();
  const bool terminal = console::is_terminal(stdout) && console::is_terminal(stderr);
  fmt::print("{}", text);
  if (!terminal) return;
  std::fflush(stdout);
  if (text.ends_with('\n')) busy().begin("what comes next");
}
void end_output() { busy().finish(); }
void Lesson::number(const std::string& name, double value) { numbers_[name] = value; }
void Lesson::numbers(const std::string& name, const std::vector<double>& values) {
  lists_[name] = values;
}

LessonOptions::LessonOptions(const LessonTitle& title, std::string& json)
    : Options(fmt::format("lesson {}", title.number),
              fmt::format("Lesson {}: {}. Prints {}.", title.number, title.name, title.about)) {
  add("--json", json, "write every number shown to FILE", called("FILE"));
}

void LessonOptions::add_own(const std::vector<LessonOption>& options) {
  for (const LessonOption& option : options) {
    const std::string name = fmt::format("--{}", option.name);
    if (option.file != nullptr)
      add(name, *option.file, option.about, called("FILE"));
    else
      add(name, *option.value, option.about, in_range(option.least, option.most));
  }
}

void show_title(Lesson& lesson, const LessonTitle& title) {
  const std::string text = fmt::format("Lesson {}  {}", title.number, title.name);
  lesson.say("{}", console::paint(console::Color::cyan, text));
}

void write_json(const std::string& path, const LessonTitle& title, const Lesson& lesson) {
  JsonObject all, numbers, lists;
  all.set("lesson", std::string(title.number));
  all.set("name", std::string(title.name));
  for (const auto& [name, value] : lesson.all_numbers()) numbers.set(name, value);
  for (const auto& [name, values] : lesson.all_lists()) lists.set(name, values);
  if (!lesson.all_numbers().empty()) all.set("numbers", numbers);
  if (!lesson.all_lists().empty()) all.set("lists", lists);
  write_file(path, all.text());
}

int run_lesson_within(int argc, char** argv, const LessonTitle& title, const LessonFrame& frame,
                      const std::function<void(Lesson&)>& body,
                      const std::vector<LessonOption>& options) {
  std::string json;
  LessonOptions parsed(title, json);
  if (frame.add_options) frame.add_options(parsed);
  parsed.add_own(options);
  if (const auto status = parsed.parse(argc, argv)) return *status;
  try {
    if (!json.empty()) expect_writable(json);
    if (frame.begin) frame.begin();
    Lesson lesson;
    show_title(lesson, title);
    body(lesson);
    end_output();
    if (frame.end) frame.end();
    if (!json.empty()) write_json(json, title, lesson);
    console::expect_printed();
    return 0;
  } catch (const std::exception& error) {
    end_output();
    console::error(error.what());
    return 1;
  }
}

int run_lesson_without_ranks(int argc, char** argv, const LessonTitle& title,
                             const std::function<void(Lesson&)>& body,
                             const std::vector<LessonOption>& options) {
  return run_lesson_within(argc, argv, title, {}, body, options);
}

}  // namespace yotta
