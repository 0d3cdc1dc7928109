// Epochs on processes over TCP: a job (comm/epochs.hpp) whose members may be killed with SIGKILL.
//
//     start_members (tcp_starter.hpp)     starts one process for each place
//         FOLDER/job                      epoch 3, who takes part, who waits, who has died
//     TcpEpochs, in each process          makes TcpRanks anew for each epoch, runs its member
//         FOLDER/ready_4711               it has come; the starter gives it a place
//         FOLDER/ask_3                    epoch 3 has ended for it, and the work is not done
//         FOLDER/kept                     what rank 0 keeps for those that come after it
//         FOLDER/finished                 the work is done
//
// A spare is a process that has come and has no place: it gets that of the first who dies.
//
// The starter knows of a death before anybody else: it is the parent. It tells the ranks of the
// epoch (rank_words.hpp), whose calls throw; each comes back to this file and waits for the next
// epoch, with what it has in memory. The first rank of the new epoch makes a rendezvous file of its
// own, so any rank may die, rank 0 too. The starter itself may not: all its processes end with it.
//
// Cost: a new epoch takes the rendezvous of a job (tcp_rendezvous.hpp), and rank 0 reads a file of
// some lines each step.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/comm/tcp/tcp_ranks.hpp"

namespace yotta {

// ---- what the starter writes ----

// The environment variable that names the folder.
inline constexpr const char* job_variable = "YOTTA_JOB_FOLDER";
// And that which says how long ranks wait for each other when an epoch begins: longer than the
// starter, who kills what does not come.
inline constexpr const char* job_seconds_variable = "YOTTA_JOB_SECONDS";

struct JobMember {
  int place = 0, number = 0;  // its number at that place
  int process = 0;
};
struct JobState {
  int epoch = 0;      // 0: none yet
  bool done = false;  // the work is, or it cannot be
  std::string words;  // of this epoch: what its ranks must find in YOTTA_WORDS
  std::vector<JobMember> members, waiting;
  std::vector<Death> deaths;
};
YOTTA_API std::string job_text(const JobState& state);
// Errors: no such text.
YOTTA_API JobState parse_job(const std::string& text, Where where = Where::current());

// Its files.
inline std::string job_file(const std::string& folder) { return folder + "/job"; }
inline std::string ask_file(const std::string& folder, int epoch) {
  return fmt::format("{}/ask_{}", folder, epoch);
}
inline std::string ready_file(const std::string& folder, int process) {
  return fmt::format("{}/ready_{}", folder, process);
}
inline std::string kept_file(const std::string& folder) { return folder + "/kept"; }
inline std::string finished_file(const std::string& folder) { return folder + "/finished"; }

// Writes it in one step, for whoever reads it now. It need not outlive this machine: unlike
// write_file this waits for no disk, since recovery would wait with it.
YOTTA_API void replace_file(const std::string& path, const std::string& bytes,
                            Where where = Where::current());

// ---- a process ----

class TcpEpochs : public EpochHost {
 public:
  // Null: this process was not started by start_members. on_epoch(rank) is called when an epoch
  // begins; -1: this process takes no part.
  YOTTA_API static std::unique_ptr<TcpEpochs> find(std::function<void(int rank)> on_epoch,
                                                   const Environment& get = own_environment);
  YOTTA_API ~TcpEpochs() override;

  YOTTA_API void run(int places, const MakeMember& make, Where where) override;
  // Is, or was, it the first rank of the last epoch? Before the first: is it at the first place?
  bool is_first() const { return rank_ == 0; }

 private:
  TcpEpochs(std::string folder, int place, std::function<void(int)> on_epoch)
      : folder_(std::move(folder)), on_epoch_(std::move(on_epoch)), rank_(place) {}
  YOTTA_API JobState await(const std::function<bool(const JobState&)>& is_it) const;
  YOTTA_API Epoch join(const JobState& state);
  YOTTA_API bool run_epoch(const JobState& state, EpochMember& member, Where where);

  std::string folder_;
  std::function<void(int)> on_epoch_;
  int rank_;  // in the last epoch; -1: it took no part
};

#if YOTTA_BODIES_OF(transports)
}  // namespace yotta

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
  for (const Death& each : state.deaths)
    text += fmt::format("dead {} {} {}\n", each.place, each.number, each.epoch);
  return text;
}

void replace_file(const std::string& path, const std::string& bytes, Where where) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0)
    fail(where, "{} cannot be written: {}; is there space, and may you write there?", path,
         std::strerror(errno));
}

JobState parse_job(const std::string& text, Where where) {
  JobState state;
  std::istringstream lines(text);
  std::string what, done;
  lines >> what >> state.epoch >> done >> state.words;
  bool right = what == "epoch" && (done == "done" || done == "goes_on");
  state.done = done == "done";
  if (state.words == "-") state.words.clear();
  for (int place = 0, number = 0, last = 0; right && lines >> what;) {
    right = !(lines >> place >> number >> last).fail();
    if (what == "member")
      state.members.push_back({place, number, last});
    else if (what == "waiting")
      state.waiting.push_back({place, number, last});
    else if (what == "dead")
      state.deaths.push_back({place, number, last});
    else
      right = false;
  }
  if (!right) fail(where, "this is not the state of a job: {:.60}", text);
  return state;
}

inline void touch(const std::string& file) { std::ofstream(file).put('\n'); }

// ---- a process ----

std::unique_ptr<TcpEpochs> TcpEpochs::find(std::function<void(int rank)> on_epoch,
                                           const Environment& get) {
  const char *const folder = get(job_variable), *const place = get("RANK");
  if (folder == nullptr || *folder == '\0' || place == nullptr) return nullptr;
  std::unique_ptr<TcpEpochs> host(new TcpEpochs(folder, std::atoi(place), std::move(on_epoch)));
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
  on_epoch_(rank_ = -1);
  touch(ready_file(folder_, getpid()));
  JobState state = await([](const JobState& it) { return find_own(it) != nullptr; });
  if (state.done) return;
  const JobMember own = *find_own(state);
  const std::unique_ptr<EpochMember> member = make({own.place, own.number});
  for (int epoch = 0;;) {
    state = await([&](const JobState& it) { return it.epoch > epoch; });
    if (state.done) return;
    epoch = state.epoch;
    if (run_epoch(state, *member, where)) return touch(finished_file(folder_));
  }
}

// Such an error does not count as a death: it would come again.
inline bool is_mistake(const CommError& error) {
  return dynamic_cast<const Deadlock*>(&error) != nullptr ||
         dynamic_cast<const Mismatch*>(&error) != nullptr ||
         dynamic_cast<const Timeout*>(&error) != nullptr;
}

// True: the work is done.
bool TcpEpochs::run_epoch(const JobState& state, EpochMember& member, Where where) {
  const Epoch epoch = join(state);
  on_epoch_(rank_);
  if (rank_ < 0) return false;
  setenv(words_variable, state.words.c_str(), 1);
  const int size = static_cast<int>(epoch.places.size());
  TcpEnvironment self{rank_, size, {}, fmt::format("{}/epoch_{}", folder_, state.epoch)};
  self.one_machine = true;
  if (const char* const seconds = std::getenv(job_seconds_variable))
    self.seconds = std::max(self.seconds, std::atof(seconds));
  bool done = false;
  try {
    TcpRanks ranks(self, {}, where);
    run_ranks(
        size, [&](Communicator& world) { done = member.run(world, epoch); }, {}, where);
  } catch (const CommError& error) {  // a death, also before all had found each other
    if (is_mistake(error)) throw;
    done = false;
  }
  if (!done) touch(ask_file(folder_, state.epoch));
  return done;
}

// The epoch, and this process's rank in it.
Epoch TcpEpochs::join(const JobState& state) {
  Epoch epoch{state.epoch, {}, nullptr};
  rank_ = -1;
  for (const JobMember& each : state.members) {
    if (each.process == getpid()) rank_ = static_cast<int>(epoch.places.size());
    epoch.places.push_back(each.place);
  }
  epoch.waiting = [this] {
    std::vector<Joiner> joiners;
    for (const JobMember& each : parse_job(read_file(job_file(folder_))).waiting)
      joiners.push_back({each.place, each.number});
    return joiners;
  };
  const std::string kept = kept_file(folder_);
  epoch.keep = [kept](const std::string& bytes) {
    try {
      replace_file(kept, bytes);
    } catch (const Error&) {  // no reason to stop: it is for a job whose members all die
    }
  };
  epoch.kept = [kept] { return std::filesystem::exists(kept) ? read_file(kept) : std::string(); };
  epoch.deaths = [this] { return parse_job(read_file(job_file(folder_))).deaths; };
  return epoch;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
