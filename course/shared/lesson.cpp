#include "course/shared/lesson.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "course/shared/comm_choice.hpp"
#include "course/shared/timelines.hpp"
#include "yotta/core/error.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {
void write_json(const std::string& path, const LessonTitle& title, const Lesson& lesson) {
  nlohmann::ordered_json all = {{"lesson", title.number}, {"name", title.name}};
  for (const auto& [name, value] : lesson.all_numbers()) all["numbers"][name] = value;
  for (const auto& [name, values] : lesson.all_lists()) all["lists"][name] = values;
  write_file(path, all.dump(2) + "\n");
}

// Lessons whose ranks leave nothing in memory for each other or for what is printed, but rank 0's results and
// the ledgers: their ranks can be processes.
bool runs_on_processes(const LessonTitle& title) {
  const std::string number = title.number;
  return number == "10" || number == "13";
}

// Under mpirun there are as many ranks as processes, unless --ranks says otherwise.
void start(CommChoice& comm, int argc, char** argv, const CLI::App& app,
           const std::vector<LessonOption>& options) {
  RanksWanted wanted{4, nullptr, 1, 1 << 20};
  int64_t* ranks = &wanted.count;
  for (const LessonOption& option : options) {
    if (std::string_view(option.name) != "ranks") continue;
    ranks = option.value;
    wanted = {*ranks, app.count("--ranks") > 0 ? "--ranks" : nullptr, option.least, option.most};
  }
  *ranks = comm.start(argc, argv, wanted);
}

}  // namespace

int run_lesson(int argc, char** argv, const LessonTitle& title,
               const std::function<void(Lesson&)>& body, const std::vector<LessonOption>& options) {
  CLI::App app(fmt::format("Lesson {}: {}. Prints {}.", title.number, title.name, title.about));
  std::string json;
  app.add_option("--json", json, "write every number shown to FILE")->type_name("FILE");
  Timelines timelines;
  timelines.add_options(app);
  CommChoice comm;
  if (runs_on_processes(title)) comm.add_option(app);
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
    if (comm.wants_processes()) {
      if (!runs_on_processes(title))
        fail(
            Where::current(),
            "the ranks of lesson {} are threads, that share what they show; start it once, without "
            "mpirun or srun",
            title.number);
      timelines.expect_none();
    }
    start(comm, argc, argv, app, options);
    if (!json.empty() && comm.is_first()) expect_writable(json);
    timelines.start();
    Lesson lesson;
    fmt::print("{}\n", console::paint(console::Color::cyan,
                                      fmt::format("Lesson {}  {}", title.number, title.name)));
    body(lesson);
    timelines.finish();
    if (!json.empty() && comm.is_first()) write_json(json, title, lesson);
    console::expect_printed();
    return comm.finish("");
  } catch (const std::exception& error) {
    return comm.finish(error.what());
  }
}

}  // namespace yotta
