// Epochs on processes over TCP: a job (comm/epochs.hpp) whose members may be killed with SIGKILL.
//
//     start_members(8, rule, program)     the starter: one process for each place
//         waits for its processes         one was killed: another is started at its place
//         writes FOLDER/job               epoch 3, who takes part, who is ready and waits
//     TcpEpochs, in each process          makes TcpRanks anew for each epoch, runs its member
//         FOLDER/ready_4711               it has come; the starter gives it a place
//         FOLDER/ask_3                    epoch 3 has ended for it, and the work is not done
//         FOLDER/finished                 the work is done
//
// A spare is a process that has come and has no place: it gets that of the first who dies.
//
// The starter knows of a death before anybody else: it is the parent. It tells the ranks of the
// epoch (rank_words.hpp), whose calls throw; each comes back to this file and waits for the next
// epoch, with what it has in memory. The first rank of the new epoch makes a rendezvous file of its
// own, so any rank may die, rank 0 too. The starter itself may not: all its processes end with it.
//
// A process that is stopped does not come to the next epoch: it is killed, and replaced.
// A process that was killed by a signal is replaced. One that ends by itself with an error ends the
// job: the same error would come again. So does a process that is killed again and again
// (MemberOptions::most_deaths), and a job that has epoch after epoch although nobody dies.
// Cost: a new epoch takes the rendezvous of a job (tcp_rendezvous.hpp), and rank 0 reads a file of
// some lines each step.
// Contract: FOLDER is the starter's own, on this machine, and goes when it ends, by Ctrl-C too; if
// the starter is killed with SIGKILL the folder stays.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/comm/tcp/tcp_ranks.hpp"

namespace yotta {

// ---- what the starter writes ----

// The environment variable that names the folder.
inline constexpr const char* job_variable = "YOTTA_JOB_FOLDER";

struct JobMember {
  int place = 0, number = 0;  // its number at that place
  int process = 0;
};
struct JobState {
  int epoch = 0;      // 0: none yet
  bool done = false;  // the work is, or it cannot be
  std::string words;  // of this epoch: what its ranks must find in YOTTA_WORDS
  std::vector<JobMember> members, waiting;
};
YOTTA_API std::string job_text(const JobState& state);
// Errors: no such text.
YOTTA_API JobState parse_job(const std::string& text, Where where = Where::current());

// ---- a process ----

class TcpEpochs : public EpochHost {
 public:
  // Null: this process was not started by start_members. on_epoch(rank): at each epoch's beginning;
  // -1: it takes no part.
  YOTTA_API static std::unique_ptr<TcpEpochs> find(std::function<void(int rank)> on_epoch,
                                                   const Environment& get = own_environment);
  YOTTA_API ~TcpEpochs() override;

  YOTTA_API void run(int places, const MakeMember& make, Where where) override;
  // Was it the first rank of the last epoch?
  bool was_first() const { return rank_ == 0; }

 private:
  TcpEpochs(std::string folder, std::function<void(int)> on_epoch)
      : folder_(std::move(folder)), on_epoch_(std::move(on_epoch)) {}
  YOTTA_API JobState await(const std::function<bool(const JobState&)>& is_it) const;
  YOTTA_API bool run_epoch(const JobState& state, EpochMember& member, Where where);

  std::string folder_;
  std::function<void(int)> on_epoch_;
  int rank_ = -1;  // in the last epoch; -1: it took no part
};

// ---- the starter ----

struct MemberOptions {
  int spares = 0;  // processes that are ready before anybody dies
  int most_deaths = 100;
  double patience = 20;  // seconds: what has not come to an epoch, or not ended, by then is killed
};

// Starts the members of a job, and others in place of those that are killed, until the work is
// done. Errors: no program of that name.
YOTTA_API LaunchResult start_members(int places, const EpochRule& rule,
                                     std::vector<std::string> program,
                                     const MemberOptions& options = {},
                                     Where where = Where::current());

#if YOTTA_BODIES_OF(transports)
}  // namespace yotta

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

// ---- what the starter writes ----

std::string job_text(const JobState& state) {
  std::string text = fmt::format("epoch {} {} {}\n", state.epoch, state.done ? "done" : "goes_on",
                                 state.words.empty() ? "-" : state.words);
  const auto add = [&](const char* what, const std::vector<JobMember>& members) {
    for (const JobMember& each : members)
      text += fmt::format("{} {} {} {}\n", what, each.place, each.number, each.process);
  };
  add("member", state.members);
  add("waiting", state.waiting);
  return text;
}

JobState parse_job(const std::string& text, Where where) {
  JobState state;
  std::istringstream lines(text);
  std::string what, done;
  lines >> what >> state.epoch >> done >> state.words;
  bool right = what == "epoch" && (done == "done" || done == "goes_on");
  state.done = done == "done";
  if (state.words == "-") state.words.clear();
  for (JobMember each; right && lines >> what;) {
    right = (what == "member" || what == "waiting") &&
            lines >> each.place >> each.number >> each.process;
    (what == "member" ? state.members : state.waiting).push_back(each);
  }
  if (!right) fail(where, "this is no state of a job: {:.60}", text);
  return state;
}

inline std::string job_file(const std::string& folder) { return folder + "/job"; }
inline std::string ask_file(const std::string& folder, int epoch) {
  return fmt::format("{}/ask_{}", folder, epoch);
}
inline std::string ready_file(const std::string& folder, int process) {
  return fmt::format("{}/ready_{}", folder, process);
}
inline void touch(const std::string& file) { std::ofstream(file).put('\n'); }

// ---- a process ----

std::unique_ptr<TcpEpochs> TcpEpochs::find(std::function<void(int rank)> on_epoch,
                                           const Environment& get) {
  const char* const folder = get(job_variable);
  if (folder == nullptr || *folder == '\0') return nullptr;
  std::unique_ptr<TcpEpochs> host(new TcpEpochs(folder, std::move(on_epoch)));
  epoch_host() = host.get();
  return host;
}
TcpEpochs::~TcpEpochs() {
  if (epoch_host() == this) epoch_host() = nullptr;
}

// The first state that is it, or in which the work is done.
JobState TcpEpochs::await(const std::function<bool(const JobState&)>& is_it) const {
  for (;;) {
    JobState state = parse_job(read_file(job_file(folder_)));
    if (state.done || is_it(state)) return state;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The entry of this process; null: it has no place.
inline const JobMember* find_own(const JobState& state) {
  for (const auto* const list : {&state.members, &state.waiting})
    for (const JobMember& each : *list)
      if (each.process == getpid()) return &each;
  return nullptr;
}

void TcpEpochs::run(int /*places*/, const MakeMember& make, Where where) {
  on_epoch_(-1);
  touch(ready_file(folder_, getpid()));
  JobState state = await([](const JobState& it) { return find_own(it) != nullptr; });
  if (state.done) return;
  const JobMember own = *find_own(state);
  const std::unique_ptr<EpochMember> member = make({own.place, own.number});
  for (int epoch = 0;;) {
    state = await([&](const JobState& it) { return it.epoch > epoch; });
    if (state.done) return;
    epoch = state.epoch;
    if (run_epoch(state, *member, where)) return touch(folder_ + "/finished");
  }
}

// True: the work is done.
bool TcpEpochs::run_epoch(const JobState& state, EpochMember& member, Where where) {
  Epoch epoch{state.epoch, {}, [this] {
                std::vector<Joiner> joiners;
                for (const JobMember& each : parse_job(read_file(job_file(folder_))).waiting)
                  joiners.push_back({each.place, each.number});
                return joiners;
              }};
  rank_ = -1;
  for (const JobMember& each : state.members) {
    if (each.process == getpid()) rank_ = static_cast<int>(epoch.places.size());
    epoch.places.push_back(each.place);
  }
  on_epoch_(rank_);
  if (rank_ < 0) return false;
  setenv(words_variable, state.words.c_str(), 1);
  const int size = static_cast<int>(epoch.places.size());
  TcpEnvironment self{rank_, size, {}, fmt::format("{}/epoch_{}", folder_, state.epoch)};
  self.one_machine = true;
  bool done = false;
  try {
    TcpRanks ranks(self, {}, where);
    run_ranks(
        size, [&](Communicator& world) { done = member.run(world, epoch); }, {}, where);
  } catch (const Deadlock&) {
    throw;
  } catch (const Mismatch&) {
    throw;
  } catch (const Timeout&) {
    throw;
  } catch (const CommError&) {  // somebody has died, also before all had found each other
    done = false;
  }
  if (!done) touch(ask_file(folder_, state.epoch));
  return done;
}

// ---- the starter ----

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
    std::string name = (std::filesystem::temp_directory_path() / "yotta_job_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      fail(where, "cannot make {}: {}", name, std::strerror(errno));
    folder_ = name;
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
      for (size_t i = processes_.size(); i-- > 0;) look_at(i);
      if (Interrupts::noted() != 0 && !state_.done) end(128 + Interrupts::noted(), "");
      if (std::chrono::steady_clock::now() > patient_until_) kill_the_late();
      if (!state_.done) plan();
    }
    return std::move(result_);
  }

 private:
  static constexpr int no_place = -1;  // a spare's
  struct Process {
    JobMember member;
    bool is_ready = false;
  };

  void start(int place) {
    const std::vector<std::string> variables = {
        fmt::format("RANK={}", std::max(place, 0)),   fmt::format("WORLD_SIZE={}", places_),
        fmt::format("LOCAL_WORLD_SIZE={}", places_),  fmt::format("YOTTA_LAUNCHER={}", getpid()),
        "YOTTA_RENDEZVOUS_FILE=" + folder_ + "/none", "MASTER_ADDR=",
        fmt::format("{}={}", job_variable, folder_),  std::string(words_variable) + "="};
    const pid_t process = start_process(program_, own_environment_with(variables), SIGKILL);
    if (process < 0) {
      end(1, fmt::format("cannot start {}: {}", program_[0], std::strerror(-process)));
      return;
    }
    processes_.push_back({{no_place, 0, process}});
    if (place != no_place) processes_.back().member = {place, next_number(place), process};
  }
  int next_number(int place) { return numbers_[static_cast<size_t>(place)]++; }

  // Is it ready, or has it ended?
  void look_at(size_t index) {
    Process& it = processes_[index];
    if (!it.is_ready && std::filesystem::exists(ready_file(folder_, it.member.process))) {
      it.is_ready = true;
      if (it.member.place != no_place) planner_.came(it.member.place);
    }
    int status = 0;
    const pid_t ended = waitpid(it.member.process, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return;
    const JobMember member = it.member;
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(index));
    if (member.place != no_place) planner_.died(member.place);
    if (ended < 0) return end(1, "how a process has ended is unknown");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool finished = std::filesystem::exists(folder_ + "/finished");
    if (code == 0 && !finished && !state_.done)
      return end(1, describe(member) + " has left without a word, in the middle of the job");
    if (WIFEXITED(status)) return end(code, "");  // it has said why
    bury(member, fmt::format("was killed: {}", strsignal(WTERMSIG(status))), code);
  }
  static std::string describe(const JobMember& member) {
    return member.place == no_place ? "a spare" : fmt::format("rank {}", member.place);
  }
  void bury(const JobMember& member, const std::string& how, int status) {
    const std::string text = fmt::format("{} {}", describe(member), how);
    if (state_.done) return end(status, result_.status == 0 ? text + ", at the very end" : "");
    if (++deaths_ > options_.most_deaths)
      return end(status, fmt::format("{}; {} processes of this job have been killed: no more are "
                                     "started",
                                     text, deaths_));
    fmt::print(stderr, "{}; another takes its place\n", text);
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
    for (size_t rank = 0; rank < state_.members.size(); ++rank)
      if (!state_.done && !words_.back()->has_come(static_cast<int>(rank)))
        kill(state_.members[rank].process, SIGKILL);
    for (const Process& each : processes_)
      if (state_.done) kill(each.member.process, SIGKILL);
    patient_until_ = std::chrono::steady_clock::time_point::max();  // once
  }
  void be_patient() {
    patient_until_ = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(options_.patience));
  }

  // The next epoch, if one is due; who waits, if that has changed.
  void plan() {
    if (state_.epoch > 0 && std::filesystem::exists(ask_file(folder_, state_.epoch)) &&
        asked_ != state_.epoch) {
      asked_ = state_.epoch;
      planner_.asks();
    }
    if (const std::optional<std::vector<int>> places = planner_.next()) begin(*places);
    std::vector<JobMember> waiting;
    for (const int place : planner_.waiting()) waiting.push_back(member_at(place));
    const bool same =
        std::equal(waiting.begin(), waiting.end(), state_.waiting.begin(), state_.waiting.end(),
                   [](const JobMember& a, const JobMember& b) { return a.process == b.process; });
    if (same) return;
    state_.waiting = std::move(waiting);
    write();
  }
  void begin(const std::vector<int>& places) {
    if (planner_.number() > 3 * (deaths_ + 2))
      return end(1, fmt::format("{} epochs have begun, and only {} processes were killed: the "
                                "ranks cannot reach each other",
                                planner_.number(), deaths_));
    const int size = static_cast<int>(places.size());
    words_.push_back(std::make_unique<RankWords>(size));
    state_.epoch = planner_.number();
    state_.words = words_.back()->name();
    state_.members.clear();
    state_.waiting.clear();
    for (const int place : places) state_.members.push_back(member_at(place));
    for (const int place : planner_.waiting()) state_.waiting.push_back(member_at(place));
    be_patient();
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
    if (!state_.done) be_patient();
    state_.done = true;
    write();
    if (status == 0) return;
    for (const Process& each : processes_) kill(each.member.process, SIGTERM);
  }
  void write() {
    AtomicFile file(job_file(folder_), where_);
    const std::string text = job_text(state_);
    file.write(text.data(), std::ssize(text), where_);
    file.commit(where_);
  }

  int places_;
  std::vector<std::string> program_;
  MemberOptions options_;
  Where where_;
  EpochPlanner planner_;
  std::vector<int> numbers_;  // by place: of the next process there
  std::string folder_;
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<RankWords>> words_;  // of each epoch
  JobState state_;
  LaunchResult result_;
  int deaths_ = 0, asked_ = 0;
  std::chrono::steady_clock::time_point patient_until_ =
      std::chrono::steady_clock::time_point::max();
};
}  // namespace detail

LaunchResult start_members(int places, const EpochRule& rule, std::vector<std::string> program,
                           const MemberOptions& options, Where where) {
  const ChildSignals signals;
  const detail::Interrupts interrupts;
  return detail::MemberStarter(places, rule, std::move(program), options, where).run();
}

#endif  // YOTTA_BODIES

}  // namespace yotta
