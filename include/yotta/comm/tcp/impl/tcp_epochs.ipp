// The bodies of comm/tcp/tcp_epochs.hpp.
#pragma once

#include "yotta/comm/tcp/tcp_epochs.hpp"

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

YOTTA_INLINE std::string job_text(const JobState& state) {
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

YOTTA_INLINE void replace_file(const std::string& path, const std::string& bytes, Where where) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0)
    fail(where, "{} cannot be written: {}; is there space, and may you write there?", path,
         std::strerror(errno));
}

YOTTA_INLINE JobState parse_job(const std::string& text, Where where) {
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

YOTTA_INLINE std::unique_ptr<TcpEpochs> TcpEpochs::find(std::function<void(int rank)> on_epoch,
                                                        const Environment& get) {
  const char *const folder = get(job_variable), *const place = get("RANK");
  if (folder == nullptr || *folder == '\0' || place == nullptr) return nullptr;
  std::unique_ptr<TcpEpochs> host(new TcpEpochs(folder, std::atoi(place), std::move(on_epoch)));
  epoch_host() = host.get();
  return host;
}
YOTTA_INLINE TcpEpochs::~TcpEpochs() {
  if (epoch_host() == this) epoch_host() = nullptr;
}

// The first state that is it, or in which the work is done.
YOTTA_INLINE JobState TcpEpochs::await(const std::function<bool(const JobState&)>& is_it) const {
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

YOTTA_INLINE void TcpEpochs::run(int /*places*/, const MakeMember& make, Where where) {
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
YOTTA_INLINE bool TcpEpochs::run_epoch(const JobState& state, EpochMember& member, Where where) {
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
YOTTA_INLINE Epoch TcpEpochs::join(const JobState& state) {
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

}  // namespace yotta
