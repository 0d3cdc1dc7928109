#include "course/shared/lesson.hpp"

#include "course/shared/comm_choice.hpp"
#include "course/shared/json_object.hpp"
#include "course/shared/options.hpp"
#include "course/shared/timelines.hpp"
#include "yotta/core/error.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {
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

// Lessons whose ranks leave nothing in memory for each other or for what is printed, but rank 0's results and
// the ledgers: their ranks can be processes.
bool runs_on_processes(const LessonTitle& title) {
  const std::string number = title.number;
  return number == "10" || number == "13";
}

// Under mpirun there are as many ranks as processes, unless --ranks says otherwise.
void start(CommChoice& comm, int argc, char** argv, const Options& parsed,
           const std::vector<LessonOption>& options) {
  RanksWanted wanted{4, nullptr, 1, 1 << 20};
  int64_t* ranks = &wanted.count;
  for (const LessonOption& option : options) {
    if (std::string_view(option.name) != "ranks") continue;
    ranks = option.value;
    wanted = {*ranks, parsed.given("--ranks") ? "--ranks" : nullptr, option.least, option.most};
  }
  *ranks = comm.start(argc, argv, wanted);
}

}  // namespace

int run_lesson(int argc, char** argv, const LessonTitle& title,
               const std::function<void(Lesson&)>& body, const std::vector<LessonOption>& options) {
  Options parsed(fmt::format("lesson {}", title.number),
                 fmt::format("Lesson {}: {}. Prints {}.", title.number, title.name, title.about));
  std::string json;
  parsed.add("--json", json, "write every number shown to FILE", called("FILE"));
  Timelines timelines;
  timelines.add_options(parsed);
  CommChoice comm;
  if (runs_on_processes(title)) comm.add_option(parsed);
  for (const LessonOption& option : options)
    parsed.add(fmt::format("--{}", option.name), *option.value, option.about,
               in_range(option.least, option.most));
  if (const auto status = parsed.parse(argc, argv)) return *status;
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
    start(comm, argc, argv, parsed, options);
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
