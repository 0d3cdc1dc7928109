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
std::string job_text(const JobState& state);
// Errors: no such text.
JobState parse_job(const std::string& text, Where where = Where::current());

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
void replace_file(const std::string& path, const std::string& bytes,
                  Where where = Where::current());

// ---- a process ----

class TcpEpochs : public EpochHost {
 public:
  // Null: this process was not started by start_members. on_epoch(rank) is called when an epoch
  // begins; -1: this process takes no part.
  static std::unique_ptr<TcpEpochs> find(std::function<void(int rank)> on_epoch,
                                         const Environment& get = own_environment);
  ~TcpEpochs() override;

  void run(int places, const MakeMember& make, Where where) override;
  // Is, or was, it the first rank of the last epoch? Before the first: is it at the first place?
  bool is_first() const { return rank_ == 0; }

 private:
  TcpEpochs(std::string folder, int place, std::function<void(int)> on_epoch)
      : folder_(std::move(folder)), on_epoch_(std::move(on_epoch)), rank_(place) {}
  JobState await(const std::function<bool(const JobState&)>& is_it) const;
  Epoch join(const JobState& state);
  bool run_epoch(const JobState& state, EpochMember& member, Where where);

  std::string folder_;
  std::function<void(int)> on_epoch_;
  int rank_;  // in the last epoch; -1: it took no part
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/tcp/impl/tcp_epochs.ipp"
#endif
