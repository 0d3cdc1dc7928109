// The bodies of comm/tcp/tcp_starter.hpp.
#pragma once

#include "yotta/comm/tcp/tcp_starter.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace detail {
// In its scope Ctrl-C and its like are noted, and do not end this process.
class Interrupts {
 public:
  Interrupts() {
    noted() = 0;
    for (size_t i = 0; i < signals.size(); ++i)
      before_[i] = signal(signals[i], [](int number) { noted() = number; });
  }
  ~Interrupts() {
    for (size_t i = 0; i < signals.size(); ++i) signal(signals[i], before_[i]);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static volatile sig_atomic_t& noted() {  // the signal; 0: none
    static volatile sig_atomic_t number = 0;
    return number;
  }

 private:
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
  std::array<sighandler_t, 3> before_{};
};

// What a process has used of the CPU, by proc(5); 0: unknown.
inline double cpu_seconds_of(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.erase(0, text.rfind(')') + 1);  // its name may have spaces
  std::istringstream words(text);
  std::string skipped;
  for (int field = 3; field < 14; ++field) words >> skipped;
  double user = 0, system = 0;  // in ticks
  words >> user >> system;
  return words ? (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK)) : 0;
}

constexpr const char* job_folder = "yotta_job_";  // and six letters

// Is it a job's folder of this user, whose starter held its lock once?
inline bool is_job_folder(const std::filesystem::path& folder) {
  struct stat about = {};
  std::error_code error;
  return folder.filename().string().starts_with(job_folder) && lstat(folder.c_str(), &about) == 0 &&
         S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
         std::filesystem::exists(job_file(folder), error) &&
         std::filesystem::file_size(folder / ".lock", error) > 0 && !error;
}
// Removes what starters have left that were killed: nobody holds the lock. What cannot be removed
// stays.
inline void remove_left_folders(const std::filesystem::path& temporary) {
  std::error_code error;
  std::filesystem::directory_iterator each(temporary, error), end;
  for (; !error && each != end; each.increment(error)) try {
      if (!is_job_folder(each->path())) continue;
      const FolderLock lock(each->path());
      if (lock.holder() == getpid() && is_job_folder(each->path()))
        std::filesystem::remove_all(each->path());
    } catch (const std::exception&) {
    }
}

// The starter of a job's members, at work.
class MemberStarter {
 public:
  MemberStarter(int places, const EpochRule& rule, std::vector<std::string> program,
                const MemberOptions& options, Where where)
      : places_(places),
        program_(std::move(program)),
        options_(options),
        where_(where),
        planner_(places, rule),
        numbers_(static_cast<size_t>(places)) {
    const std::filesystem::path temporary = std::filesystem::temp_directory_path();
    remove_left_folders(temporary);
    std::string name = (temporary / job_folder).string() + "XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      fail(where, "cannot make {}: {}", name, std::strerror(errno));
    folder_ = name;
    lock_.emplace(folder_, where);
  }
  ~MemberStarter() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  MemberStarter(const MemberStarter&) = delete;
  MemberStarter& operator=(const MemberStarter&) = delete;

  LaunchResult run() {
    write();
    for (int place = 0; place < places_; ++place) start(place);
    for (int spare = 0; spare < options_.spares; ++spare) start(no_place);
    while (!processes_.empty()) {
      if (words_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (!words_.empty()) words_.back()->read(5);
      if (Interrupts::noted() != 0 && !state_.done) end(128 + Interrupts::noted(), "");
      for (size_t i = processes_.size(); i-- > 0;) look_at(i);
      if (std::chrono::steady_clock::now() > patient_until_) kill_the_late();
      if (!state_.done) plan();
    }
    // Of a run that ends well its first rank says it.
    if (result_.status != 0 && !state_.deaths.empty())
      say("killed in this run: " + yotta::describe(state_.deaths));
    return std::move(result_);
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int no_place = -1;  // a spare's
  struct Process {
    JobMember member;
    double cpu_seconds = 0;  // when it was last asked whether it computes
    bool is_ready = false;
    Time stopped_until = Time::max();  // it is stopped, and killed then
  };

  void start(int place) {
    const std::vector<std::string> variables = {
        fmt::format("RANK={}", place == no_place ? places_ : place),
        fmt::format("WORLD_SIZE={}", places_),
        fmt::format("LOCAL_WORLD_SIZE={}", places_),
        fmt::format("YOTTA_LAUNCHER={}", getpid()),
        "YOTTA_RENDEZVOUS_FILE=" + folder_ + "/none",
        "MASTER_ADDR=",
        fmt::format("{}={}", job_variable, folder_),
        fmt::format("{}={}", job_seconds_variable, 2 * busy_patience * options_.patience),
        std::string(words_variable) + "="};
    const pid_t process = start_process(program_, own_environment_with(variables), SIGKILL);
    if (process < 0) {
      end(1, fmt::format("cannot start {}: {}", program_[0], std::strerror(-process)));
      return;
    }
    processes_.push_back({{no_place, 0, process}});
    if (place != no_place) processes_.back().member = {place, next_number(place), process};
  }
  int next_number(int place) { return numbers_[static_cast<size_t>(place)]++; }

  // Is it ready, is it stopped, or has it ended?
  void look_at(size_t index) {
    Process& it = processes_[index];
    if (!it.is_ready && std::filesystem::exists(ready_file(folder_, it.member.process))) {
      it.is_ready = true;
      if (it.member.place != no_place) planner_.came(it.member.place);
    }
    if (std::chrono::steady_clock::now() > it.stopped_until) kill(it.member.process, SIGKILL);
    int status = 0;
    const pid_t changed = waitpid(it.member.process, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (changed == 0 || (changed < 0 && errno == EINTR)) return;
    if (changed > 0 && !WIFEXITED(status) && !WIFSIGNALED(status)) {
      it.stopped_until = WIFSTOPPED(status) ? after_patience() : Time::max();
      return;
    }
    const JobMember member = it.member;
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(index));
    if (member.place != no_place) planner_.died(member.place);
    if (changed < 0) return end(1, "how a process has ended is unknown");
    has_ended(member, status);
  }
  void has_ended(const JobMember& member, int status) {
    if (Interrupts::noted() != 0 && !state_.done) end(128 + Interrupts::noted(), "");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool finished = state_.done || std::filesystem::exists(finished_file(folder_));
    if (code == 0 && !finished)
      return end(1, describe(member) +
                        " ended with status 0 in the middle of the job (did it call exit?)");
    if (code == 0) return end(0, "");
    if (WIFEXITED(status))  // those that end after it do so for the same reason
      return end(code, state_.done
                           ? ""
                           : fmt::format("{} has ended with status {}", describe(member), code));
    const std::string how = fmt::format("was killed: {}", strsignal(WTERMSIG(status)));
    if (!finished) return bury(member, how, code);
    if (result_.status != 0) return;                                    // this starter has ended it
    const bool is_first = state_.members[0].process == member.process;  // which writes the results
    if (is_first) result_.status = code;
    end(0, describe(member) + " " + how + ", when the work was done");
  }
  // On a line of its own: at a terminal a rank may have left a line of progress open.
  static void say(const std::string& text) {
    fmt::print(stderr, "{}{}\n", isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", text);
  }
  static std::string describe(const JobMember& member) {
    return member.place == no_place ? "a spare" : fmt::format("rank {}", member.place);
  }
  int deaths() const { return static_cast<int>(state_.deaths.size()); }
  void bury(const JobMember& member, const std::string& how, int status) {
    const std::string text = fmt::format("{} {}", describe(member), how);
    state_.deaths.push_back({member.place, member.number, state_.epoch});
    if (deaths() > options_.most_deaths)
      return end(status, fmt::format("{}; {} processes of this job have been killed: no more are "
                                     "started",
                                     text, deaths()));
    write();
    say(text + "; another takes its place");
    for (size_t rank = 0; rank < state_.members.size() && !words_.empty(); ++rank)
      if (state_.members[rank].process == member.process)
        words_.back()->tell(static_cast<int>(rank), how);
    replace(member.place);
  }
  // By a spare that is ready, and a new spare; else by a new process.
  void replace(int place) {
    for (Process& each : processes_)
      if (place != no_place && each.is_ready && each.member.place == no_place) {
        each.member.place = place, each.member.number = next_number(place);
        planner_.came(place);
        return start(no_place);
      }
    start(place);
  }

  // Those that have not come to this epoch, or have not ended although the job has.
  void kill_the_late() {
    patient_until_ = Time::max();
    for (size_t rank = 0; rank < state_.members.size(); ++rank)
      if (!state_.done && !words_.back()->has_come(static_cast<int>(rank)))
        wait_or_give_up(state_.members[rank]);
    for (const Process& each : processes_)
      if (state_.done) kill(each.member.process, SIGKILL);
  }
  // As long as it computes it is looked at again after another patience.
  void wait_or_give_up(const JobMember& member) {
    if (!computes(member)) return give_up(member, 1, "uses no CPU time");
    if (std::chrono::steady_clock::now() > busy_until_)
      return give_up(member, busy_patience, "computes");
    patient_until_ = after_patience();
  }
  // Since this was last asked, for 1 in 500 of the time or more? A busy machine gives it little.
  // The kernel counts in ticks of 10 ms, and a sleeping rank may use one: so more than two.
  bool computes(const JobMember& member) {
    for (Process& each : processes_) {
      if (each.member.process != member.process) continue;
      const double before = std::exchange(each.cpu_seconds, cpu_seconds_of(member.process));
      return each.cpu_seconds - before > std::max(0.025, options_.patience / 500);
    }
    return false;
  }
  void give_up(const JobMember& member, double times, const char* what_it_does) const {
    say(
        fmt::format("{} has not come to epoch {} within {:g} s, {}, and is killed: if it needs "
                    "longer, raise --patience",
                    describe(member), state_.epoch, times * options_.patience, what_it_does));
    kill(member.process, SIGKILL);
  }
  Time after_patience(double times = 1) const {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(times * options_.patience));
  }

  // The next epoch, if one is due; who waits, if that has changed.
  void plan() {
    if (state_.epoch > 0 && std::filesystem::exists(ask_file(folder_, state_.epoch)) &&
        asked_ != state_.epoch) {
      asked_ = state_.epoch;
      planner_.asks();
    }
    if (const std::optional<std::vector<int>> places = planner_.next()) begin(*places);
    tell_of_wait();
    std::vector<JobMember> waiting;
    for (const int place : planner_.waiting()) waiting.push_back(member_at(place));
    const bool same =
        std::equal(waiting.begin(), waiting.end(), state_.waiting.begin(), state_.waiting.end(),
                   [](const JobMember& a, const JobMember& b) { return a.process == b.process; });
    if (same) return;
    state_.waiting = std::move(waiting);
    write();
  }
  void tell_of_wait() {
    const std::vector<int> missing = planner_.missing();
    const Time now = std::chrono::steady_clock::now();
    if (missing.empty()) tell_again_ = {};
    if (missing.empty() || !options_.all_wait || now < tell_again_) return;
    tell_again_ = now + std::chrono::seconds(1);
    options_.all_wait(missing);
  }
  void begin(const std::vector<int>& places) {
    if (planner_.number() > 3 * (deaths() + 2))
      return end(1, fmt::format("{} epochs have begun, and only {} processes were killed: the "
                                "ranks cannot reach each other",
                                planner_.number(), deaths()));
    const int size = static_cast<int>(places.size());
    words_.push_back(std::make_unique<RankWords>(size));
    state_.epoch = planner_.number();
    state_.words = words_.back()->name();
    state_.members.clear();
    state_.waiting.clear();
    for (const int place : places) state_.members.push_back(member_at(place));
    for (const int place : planner_.waiting()) state_.waiting.push_back(member_at(place));
    patient_until_ = after_patience(), busy_until_ = after_patience(busy_patience);
    for (Process& each : processes_) each.cpu_seconds = cpu_seconds_of(each.member.process);
    write();
  }
  JobMember member_at(int place) const {
    for (const Process& each : processes_)
      if (each.member.place == place) return each.member;
    fail(where_, "no process is at place {}", place);
  }

  // The work is done, or cannot be: those that wait end too. With an error the others are killed.
  void end(int status, const std::string& text) {
    if (!text.empty()) result_.text += text + "\n";
    if (result_.status == 0) result_.status = status;
    if (!state_.done) patient_until_ = after_patience();
    state_.done = true;
    write();
    if (status == 0) return;
    for (const Process& each : processes_) kill(each.member.process, SIGTERM);
  }
  void write() { replace_file(job_file(folder_), job_text(state_), where_); }

  int places_;
  std::vector<std::string> program_;
  MemberOptions options_;
  Where where_;
  EpochPlanner planner_;
  std::vector<int> numbers_;  // by place: of the next process there
  std::string folder_;
  std::optional<FolderLock> lock_;  // on the folder: as long as somebody has it, nobody removes it
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<RankWords>> words_;  // of each epoch
  JobState state_;
  LaunchResult result_;
  int asked_ = 0;
  Time tell_again_{};                 // that all wait
  Time patient_until_ = Time::max();  // with this epoch, or with those that have not ended
  Time busy_until_ = Time::max();     // with those that compute and do not come to it
};
}  // namespace detail

YOTTA_INLINE LaunchResult start_members(int places, const EpochRule& rule,
                                        std::vector<std::string> program,
                                        const MemberOptions& options, Where where) {
  const ChildSignals signals;
  const detail::Interrupts interrupts;
  return detail::MemberStarter(places, rule, std::move(program), options, where).run();
}

}  // namespace yotta
