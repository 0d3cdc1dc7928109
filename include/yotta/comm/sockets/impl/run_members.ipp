// The bodies of comm/sockets/run_members.hpp.
#pragma once

#include "yotta/comm/sockets/run_members.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "yotta/comm/sockets/job_children.hpp"
#include "yotta/comm/sockets/job_line.hpp"
#include "yotta/core/options.hpp"

namespace yotta {

namespace detail {
// In its scope Ctrl-C and its like are noted, and do not end this process.
class NotedInterrupts {
 public:
  NotedInterrupts() {
    noted() = 0;
    for (size_t i = 0; i < signals.size(); ++i)
      before_[i] = signal(signals[i], [](int number) { noted() = number; });
  }
  ~NotedInterrupts() {
    for (size_t i = 0; i < signals.size(); ++i) signal(signals[i], before_[i]);
  }
  NotedInterrupts(const NotedInterrupts&) = delete;
  NotedInterrupts& operator=(const NotedInterrupts&) = delete;

  static volatile sig_atomic_t& noted() {  // the signal; 0: none
    static volatile sig_atomic_t number = 0;
    return number;
  }

 private:
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
  std::array<sighandler_t, 3> before_{};
};

// What a process has used of the CPU, by proc(5); 0: unknown.
inline double used_cpu_seconds(int process) {
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

// The starter of a job's members, at work.
class MembersRun {
 public:
  MembersRun(int places, const EpochRule& rule, std::vector<std::string> program,
             const MembersOptions& options, Where where)
      : places_(places),
        program_(std::move(program)),
        options_(options),
        where_(where),
        planner_(places, rule),
        numbers_(static_cast<size_t>(places)) {
    check_option(where, "MembersOptions::spares", options, &MembersOptions::spares, zero_or_more);
    check_option(where, "MembersOptions::most_deaths", options, &MembersOptions::most_deaths,
                 zero_or_more);
    check_option(where, "MembersOptions::patience", options, &MembersOptions::patience, above_zero);
    expect_child_ranks(places + options.spares, where);
  }
  MembersRun(const MembersRun&) = delete;
  MembersRun& operator=(const MembersRun&) = delete;

  LaunchResult run() {
    for (int place = 0; place < places_; ++place) start(place);
    for (int spare = 0; spare < options_.spares; ++spare) start(no_place);
    while (!processes_.empty()) {
      await_words(lines(), 20);
      for (Process& each : processes_) each.line->flush(), hear(each);
      if (NotedInterrupts::noted() != 0 && !state_.done) end(128 + NotedInterrupts::noted(), "");
      for (size_t i = processes_.size(); i-- > 0;) look_at(i);
      if (now() > patient_until_) kill_the_late();
      if (!state_.done) plan();
      tell();
    }
    // Of a run that ends well its first rank says it.
    for (const std::string& each : said_) result_.text += each + "\n";
    if (result_.status != 0 && !state_.deaths.empty())
      say("killed in this run: " + yotta::describe(state_.deaths));
    return std::move(result_);
  }

 private:
  static constexpr int no_place = -1;  // a spare's
  static constexpr double never = std::numeric_limits<double>::infinity();
  struct Process {
    JobProcess member;
    std::shared_ptr<WordLine> line;
    double cpu_seconds = 0;  // when it was last asked whether it computes
    bool is_ready = false;
    int came_to = 0;               // this epoch
    double stopped_until = never;  // it is stopped, and killed then
  };

  void start(int place) {
    JobChild child = start_child(program_, place == no_place ? places_ : place, places_,
                                 {fmt::format("{}=1", members_variable)});
    if (child.process < 0) {
      end(1, fmt::format("cannot start {}: {}", program_[0], std::strerror(-child.process)));
      return;
    }
    for (const auto& [key, file] : notes_) child.line->put("note " + key, copy_of(file));
    processes_.push_back({{no_place, 0, child.process}, std::move(child.line)});
    if (place != no_place) processes_.back().member = {place, next_number(place), child.process};
  }
  int next_number(int place) { return numbers_[static_cast<size_t>(place)]++; }

  std::vector<std::shared_ptr<WordLine>> lines() const {
    std::vector<std::shared_ptr<WordLine>> all;
    for (const Process& each : processes_) all.push_back(each.line);
    return all;
  }

  // What a process says.
  void hear(Process& it) {
    while (std::optional<LineWord> word = it.line->take()) {
      if (word->what == "come") has_come(it, take_number(word->rest));
      if (word->what == "asks") asks(take_number(word->rest));
      if (word->what == "finished") is_finished_ = true;
      if (word->what == "says" && std::find(said_.begin(), said_.end(), word->rest) == said_.end())
        said_.push_back(word->rest);
      if (word->what != "note" || !word->descriptor.is_open()) continue;
      notes_[word->rest] = std::move(word->descriptor);
      new_notes_.insert(word->rest);
    }
  }
  void has_come(Process& it, int epoch) {
    it.came_to = std::max(it.came_to, epoch);
    if (std::exchange(it.is_ready, true) || it.member.place == no_place) return;
    planner_.came(it.member.place);
  }
  void asks(int epoch) {
    if (epoch != state_.epoch || std::exchange(asked_, epoch) == epoch) return;
    planner_.asks();
  }

  // Is it stopped, or has it ended?
  void look_at(size_t index) {
    Process& it = processes_[index];
    if (now() > it.stopped_until) kill(it.member.process, SIGKILL);
    int status = 0;
    const pid_t changed = waitpid(it.member.process, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (changed == 0 || (changed < 0 && errno == EINTR)) return;
    if (changed > 0 && !WIFEXITED(status) && !WIFSIGNALED(status)) {
      it.stopped_until = WIFSTOPPED(status) ? after_patience() : never;
      return;
    }
    hear(it);  // its last words
    const JobProcess member = it.member;
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(index));
    if (member.place != no_place) planner_.died(member.place);
    if (changed < 0) return end(1, "how a process has ended is unknown");
    has_ended(member, status);
  }
  void has_ended(const JobProcess& member, int status) {
    if (NotedInterrupts::noted() != 0 && !state_.done) end(128 + NotedInterrupts::noted(), "");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool finished = state_.done || is_finished_;
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
    if (result_.status != 0) return;  // this starter has ended it
    // The first writes the results.
    const bool is_first = !state_.members.empty() && state_.members[0].process == member.process;
    if (is_first) result_.status = code;
    end(0, describe(member) + " " + how + ", when the work was done");
  }
  // On a line of its own: at a terminal a rank may have left a line of progress open.
  static void say(const std::string& text) {
    fmt::print(stderr, "{}{}\n", isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", text);
  }
  static std::string describe(const JobProcess& member) {
    return member.place == no_place ? "a spare" : fmt::format("rank {}", member.place);
  }
  int deaths() const { return static_cast<int>(state_.deaths.size()); }
  void bury(const JobProcess& member, const std::string& how, int status) {
    const std::string text = fmt::format("{} {}", describe(member), how);
    state_.deaths.push_back({member.place, member.number, state_.epoch});
    if (deaths() > options_.most_deaths)
      return end(status, fmt::format("{}; {} processes of this job have been killed: no more are "
                                     "started",
                                     text, deaths()));
    is_told_ = false;
    say(text + "; another takes its place");
    for (size_t rank = 0; rank < state_.members.size(); ++rank)
      if (state_.members[rank].process == member.process)
        for (const Process& each : processes_)
          each.line->put(fmt::format("lost {} {} {}", state_.epoch, rank, how));
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
    patient_until_ = never;
    for (Process& each : processes_) {
      if (state_.done) kill(each.member.process, SIGKILL);
      if (!state_.done && is_member(each) && each.came_to < state_.epoch) wait_or_give_up(each);
    }
  }
  bool is_member(const Process& it) const {
    return std::any_of(state_.members.begin(), state_.members.end(),
                       [&](const JobProcess& each) { return each.process == it.member.process; });
  }
  // As long as it computes it is looked at again after another patience.
  void wait_or_give_up(Process& it) {
    if (!computes(it)) return give_up(it.member, 1, "uses no CPU time");
    if (now() > busy_until_) return give_up(it.member, busy_patience_times, "computes");
    patient_until_ = after_patience();
  }
  // Since this was last asked, for 1 in 500 of the time or more? A busy machine gives it little.
  // The kernel counts in ticks of 10 ms, and a sleeping rank may use one: so more than two.
  bool computes(Process& it) const {
    const double before = std::exchange(it.cpu_seconds, used_cpu_seconds(it.member.process));
    return it.cpu_seconds - before > std::max(0.025, options_.patience / 500);
  }
  void give_up(const JobProcess& member, double times, const char* what_it_does) const {
    say(
        fmt::format("{} has not come to epoch {} within {:g} s, {}, and is killed: if it needs "
                    "longer, raise --patience",
                    describe(member), state_.epoch, times * options_.patience, what_it_does));
    kill(member.process, SIGKILL);
  }
  double now() const {
    if (options_.now) return options_.now();
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
  }
  double after_patience(double times = 1) const { return now() + times * options_.patience; }

  // The next epoch, if one is due; who waits, if that has changed.
  void plan() {
    if (const std::optional<std::vector<int>> places = planner_.next()) begin(*places);
    tell_of_wait();
    std::vector<JobProcess> waiting;
    for (const int place : planner_.waiting()) waiting.push_back(member_at(place));
    const bool same =
        std::equal(waiting.begin(), waiting.end(), state_.waiting.begin(), state_.waiting.end(),
                   [](const JobProcess& a, const JobProcess& b) { return a.process == b.process; });
    if (same) return;
    state_.waiting = std::move(waiting);
    is_told_ = false;
  }
  void tell_of_wait() {
    const std::vector<int> missing = planner_.missing();
    if (missing.empty()) tell_again_ = 0;
    if (missing.empty() || !options_.all_wait || now() < tell_again_) return;
    tell_again_ = now() + 1;
    options_.all_wait(missing);
  }
  void begin(const std::vector<int>& places) {
    if (planner_.number() > 3 * (deaths() + 2))
      return end(1, fmt::format("{} epochs have begun, and only {} processes were killed: the "
                                "ranks cannot reach each other",
                                planner_.number(), deaths()));
    state_.epoch = planner_.number();
    state_.members.clear();
    state_.waiting.clear();
    for (const int place : places) state_.members.push_back(member_at(place));
    for (const int place : planner_.waiting()) state_.waiting.push_back(member_at(place));
    patient_until_ = after_patience(), busy_until_ = after_patience(busy_patience_times);
    for (Process& each : processes_) each.cpu_seconds = used_cpu_seconds(each.member.process);
    give_notes();
    std::vector<std::shared_ptr<WordLine>> lines;
    for (const int place : places) lines.push_back(process_at(place).line);
    pairs_ = SocketPairs(state_.epoch, std::move(lines));
    is_told_ = false;
  }
  const Process& process_at(int place) const {
    for (const Process& each : processes_)
      if (each.member.place == place) return each;
    fail(where_, "no process is at place {}", place);
  }
  JobProcess member_at(int place) const { return process_at(place).member; }
  // What processes have left for others since the last epoch began.
  void give_notes() {
    for (const std::string& key : new_notes_)
      for (const Process& each : processes_)
        each.line->put_newest("note " + key, "", copy_of(notes_.at(key)));
    new_notes_.clear();
  }
  // What has changed; of a new epoch when its ranks have their sockets.
  void tell() {
    if (is_told_ || (!state_.done && !pairs_.give())) return;
    for (const Process& each : processes_) each.line->put_newest("news", news_text(state_));
    is_told_ = true;
  }

  // The work is done, or cannot be: those that wait end too. With an error the others are killed.
  void end(int status, const std::string& text) {
    if (!text.empty()) result_.text += text + "\n";
    if (result_.status == 0) result_.status = status;
    if (!state_.done) patient_until_ = after_patience();
    state_.done = true;
    is_told_ = false;
    if (status == 0) return;
    for (const Process& each : processes_) kill(each.member.process, SIGTERM);
  }
  int places_;
  std::vector<std::string> program_;
  MembersOptions options_;
  Where where_;
  EpochPlanner planner_;
  std::vector<int> numbers_;  // by place: of the next process there
  std::vector<Process> processes_;
  std::map<std::string, Descriptor> notes_;
  std::set<std::string> new_notes_;  // not given to those that run
  SocketPairs pairs_;                // of this epoch
  JobNews state_;
  bool is_told_ = true;  // of all that has changed
  LaunchResult result_;
  std::vector<std::string> said_;  // errors, each once
  bool is_finished_ = false;       // a process has said that the work is done
  int asked_ = 0;                  // to end this epoch
  double tell_again_ = 0;          // that all wait
  double patient_until_ = never;   // with this epoch, or with those that have not ended
  double busy_until_ = never;      // with those that compute and do not come to it
};
}  // namespace detail

YOTTA_INLINE LaunchResult run_members(int places, const EpochRule& rule,
                                      std::vector<std::string> program,
                                      const MembersOptions& options, Where where) {
  const ChildSignals signals;
  const detail::NotedInterrupts interrupts;
  return detail::MembersRun(places, rule, std::move(program), options, where).run();
}

}  // namespace yotta
