#include "course/lesson/lesson_frame.hpp"
#include "course/options/comm_choice.hpp"
#include "course/options/timelines.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {

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

int run_lesson_on_processes(int argc, char** argv, const LessonTitle& title,
                            const std::function<void(Lesson&)>& body,
                            const std::vector<LessonOption>& options) {
  std::string json;
  LessonOptions parsed(title, json);
  Timelines timelines;
  timelines.add_options(parsed);
  CommChoice comm;
  comm.add_option(parsed);
  parsed.add_own(options);
  if (const auto status = parsed.parse(argc, argv)) return *status;
  try {
    if (comm.wants_processes()) timelines.expect_none();
    start(comm, argc, argv, parsed, options);
    if (!json.empty() && comm.is_first()) expect_writable(json);
    timelines.start();
    Lesson lesson;
    show_title(lesson, title);
    body(lesson);
    end_output();
    timelines.finish();
    if (!json.empty() && comm.is_first()) write_json(json, title, lesson);
    console::expect_printed();
    return comm.finish("");
  } catch (const std::exception& error) {
    end_output();
    return comm.finish(error.what());
  }
}

}  // namespace yotta
