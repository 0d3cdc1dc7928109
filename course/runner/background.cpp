#include "runner/background.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/terminal.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double long_enough = 60;  // seconds, for verbs that grade nothing

// `mask`: restored when signals have their default actions again. Until then they are blocked, so
// that the parent's handlers never run in the child.
[[noreturn]] void become_quiet(const Command& command, int output, const sigset_t& mask) {
  setpgid(0, 0);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE})
    std::signal(each, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(output, STDOUT_FILENO), dup2(output, STDERR_FILENO);
  _exit(become(command));
}

// What the log page shows: all that the compiler said, or every failure and all that was printed.
std::string all_of(const nlohmann::json& verdict) {
  if (verdict.value("compiled", true) == false) return verdict.value("log", "");
  std::string text;
  for (const auto& one : verdict.value("cases", nlohmann::json::array()))
    if (!one.value("passed", true))
      text += fmt::format("{}\n{}\n\n", one.value("name", ""), one.value("message", ""));
  const std::string output = verdict.value("output", "");
  return text + (output.empty() ? "" : "Your program printed:\n" + output);
}

void add_tasks(const nlohmann::json& verdict, study::Event& event) {
  for (const auto& task : verdict.value("tasks", nlohmann::json::array()))
    event.tasks.push_back(
        {task.value("id", ""), task.value("points", 0), task.value("solved", false)});
}

}  // namespace

std::string own_program() { return program_at(fs::read_symlink("/proc/self/exe")); }

std::string program_at(const std::string& link) {
  const std::string mark = " (deleted)";
  return link.ends_with(mark) ? link.substr(0, link.size() - mark.size()) : link;
}

std::string run_here(Command words) {
  words.insert(words.begin(), own_program());
  return run_limited(words, long_enough).output;
}

Background::Background(Command words) : folder_(YOTTA_BUILD_DIR "/learn") {
  words.insert(words.begin(), own_program());
  words.push_back(folder_.path() + "/verdict.json");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &mask);
  process_ = fork();
  if (process_ == 0) become_quiet(words, ends[1], mask);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (process_ < 0) throw std::runtime_error("cannot start another process");
  setpgid(process_, process_);
  close(ends[1]);
  output_ = ends[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
  Terminal::set_group_to_end(process_);
}

Background::~Background() {
  Terminal::set_group_to_end(0);
  kill(-process_, SIGTERM);  // it ends the student's program, and then itself
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(output_);
}

bool Background::ended() {
  char text[4096];
  for (;;) {
    const ssize_t count = read(output_, text, sizeof text);
    if (count > 0) said_.append(text, static_cast<size_t>(count));
    if (count <= 0) return count == 0;
  }
}

std::string Background::said() const { return printable(said_); }

study::Event Background::verdict() const {
  study::Event event;
  event.text = said();
  const std::string file = folder_.path() + "/verdict.json";
  if (!fs::exists(file)) return event;
  const auto verdict = nlohmann::json::parse(read_text(file), nullptr, false);
  if (!verdict.is_object()) return event;
  for (const auto& one : verdict.value("exercises", nlohmann::json::array())) add_tasks(one, event);
  if (verdict.value("graded", false) == false) return event;
  event.compiled = verdict.value("compiled", true);
  event.log = all_of(verdict);
  add_tasks(verdict, event);
  return event;
}

}  // namespace runner
