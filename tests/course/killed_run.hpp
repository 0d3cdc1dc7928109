// `train --comm processes` whose ranks are killed from outside, with kill -9, when it has printed a
// step and that others have taken the places of those killed before.
//
//     const KilledRun run = run_and_kill({train, "--comm", "processes", ...}, folder,
//                                        {{15, {0, 3}}, {40, {1}}});
//     run.killed[0]    the step that was printed when ranks 0 and 3 were killed: 15 or a little
//                      more
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runner/process.hpp"
#include "support/longest_wait.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta_test {

struct Killing {
  int64_t step = 0;  // printed
  std::vector<int> ranks;
};
struct KilledRun {
  runner::Ending ending;
  std::string printed;          // on stderr
  std::vector<int64_t> killed;  // what step each killing found printed
};

namespace killed_run {
inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
// Of "training ... 15/150  loss 3.2 ...", the last that is there; 0: none.
inline int64_t last_step(const std::string& printed) {
  const size_t line = printed.rfind("  loss "), slash = printed.rfind('/', line);
  if (line == printed.npos || slash == printed.npos) return 0;
  const size_t before = printed.find_last_not_of("0123456789", slash - 1);
  return std::atol(printed.c_str() + before + 1);
}
// "rank 1 was killed: Killed; another takes its place"
inline int replaced(const std::string& printed) {
  const std::string words = "another takes its place";
  int count = 0;
  for (size_t at = printed.find(words); at != printed.npos; at = printed.find(words, at + 1))
    ++count;
  return count;
}
struct Marked {
  pid_t process;
  int place = -1;  // -1: none of the job's
  bool is_member = false;
};
// The processes that have this mark in their environment. Those that end meanwhile are left out.
inline std::vector<Marked> marked(const std::string& mark) {
  std::vector<Marked> all;
  for (const auto& each : std::filesystem::directory_iterator("/proc")) {
    const std::string number = each.path().filename();
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    std::ifstream environment(each.path() / "environ");
    bool is_marked = false;
    Marked found = {std::atoi(number.c_str())};
    for (std::string variable; std::getline(environment, variable, '\0');) {
      is_marked = is_marked || variable == mark;
      found.is_member = found.is_member || variable.starts_with("YOTTA_JOB_MEMBERS=");
      if (variable.starts_with("RANK=")) found.place = std::atoi(variable.c_str() + 5);
    }
    if (is_marked) all.push_back(found);
  }
  return all;
}
}  // namespace killed_run

// In `folder` it leaves what is printed, and nothing else.
inline KilledRun run_and_kill(const std::vector<std::string>& train,
                              const std::filesystem::path& folder,
                              const std::vector<Killing>& plan) {
  const std::string log = (folder / "printed.txt").string();
  std::ofstream(log).put('\n');
  // Each step is printed, as at a terminal.
  std::vector<std::string> words = {"env",
                                    "TMPDIR=" + folder.string(),
                                    "YOTTA_TERMINALS=2",
                                    "/bin/sh",
                                    "-c",
                                    "exec \"$@\" 2> " + log,
                                    "sh"};
  words.insert(words.end(), train.begin(), train.end());
  KilledRun run;
  int deaths = 0;
  const auto watch = [&](int) -> std::string {
    const size_t next = run.killed.size();
    if (next == plan.size()) return "";
    const std::string printed = killed_run::text_of(log);
    const int64_t step = killed_run::last_step(printed);
    if (step < plan[next].step || killed_run::replaced(printed) < deaths) return "";
    for (const killed_run::Marked& each : killed_run::marked("TMPDIR=" + folder.string()))
      for (const int rank : plan[next].ranks)
        if (each.is_member && each.place == rank && kill(each.process, SIGKILL) == 0) ++deaths;
    run.killed.push_back(step);
    return "";
  };
  run.ending = runner::run_watched(words, {.seconds = longest_wait, .watch = watch});
  run.printed = killed_run::text_of(log);
  return run;
}

}  // namespace yotta_test
