#include <cstdlib>

#include "course/lesson/lesson_frame.hpp"
#include "course/options/timelines.hpp"
#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/core/error.hpp"

namespace yotta {

namespace {

// Several copies of this program would each run all ranks, and print everything. One of them says
// so.
void expect_started_once(const LessonTitle& title) {
  const char *const rank = std::getenv("RANK"), *const size = std::getenv("WORLD_SIZE");
  const bool by_torchrun = rank != nullptr && size != nullptr && std::string_view(size) != "1";
  const std::optional<LaunchEnvironment> launch = find_launch_environment();
  if (!launch && !by_torchrun) return;
  if (launch ? launch->rank > 0 : std::string_view(rank) != "0") console::mute();
  fail(Where::current(),
       "the ranks of lesson {} are threads, that share what they show; start it once, without "
       "mpirun, srun or torchrun",
       title.number);
}

}  // namespace

int run_lesson(int argc, char** argv, const LessonTitle& title,
               const std::function<void(Lesson&)>& body, const std::vector<LessonOption>& options) {
  Timelines timelines;
  LessonFrame frame;
  frame.add_options = [&](Options& parsed) { timelines.add_options(parsed); };
  frame.begin = [&] {
    expect_started_once(title);
    timelines.start();
  };
  frame.end = [&] { timelines.finish(); };
  return run_lesson_within(argc, argv, title, frame, body, options);
}

}  // namespace yotta
