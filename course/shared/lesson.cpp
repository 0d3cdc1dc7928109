#include "course/shared/lesson.hpp"

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "course/shared/timelines.hpp"

namespace yotta {

namespace {
void write_json(const std::string& path, const LessonTitle& title, const Lesson& lesson) {
  nlohmann::ordered_json all = {{"lesson", title.number}, {"name", title.name}};
  for (const auto& [name, value] : lesson.all_numbers()) all["numbers"][name] = value;
  for (const auto& [name, values] : lesson.all_lists()) all["lists"][name] = values;
  std::ofstream file(path);
  file << all.dump(2) << "\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + path + "; is the folder there?");
}
}  // namespace

int run_lesson(int argc, char** argv, const LessonTitle& title,
               const std::function<void(Lesson&)>& body, const std::vector<LessonOption>& options) {
  CLI::App app(fmt::format("Lesson {}: {}. Prints {}.", title.number, title.name, title.about));
  std::string json;
  app.add_option("--json", json, "write every number shown to FILE")->type_name("FILE");
  Timelines timelines;
  timelines.add_options(app);
  for (const LessonOption& option : options)
    app.add_option(fmt::format("--{}", option.name), *option.value, option.about)
        ->check(CLI::Range(option.least, option.most))
        ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    timelines.start();
    Lesson lesson;
    fmt::print("{}\n", console::paint(console::Color::cyan,
                                      fmt::format("Lesson {}  {}", title.number, title.name)));
    body(lesson);
    timelines.finish();
    if (!json.empty()) write_json(json, title, lesson);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} {}\n", console::paint(console::Color::red, "error:", stderr),
               error.what());
    return 1;
  }
}

}  // namespace yotta
