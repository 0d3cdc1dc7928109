// Epochs: a job that goes on when ranks die, and takes new ones in.
//
//     place   0   1   2   3
//     epoch 1 A   B   C   D        world of 4; C is killed: the calls of the others throw
//     epoch 2 A   B   .   D        world of 3 with new communicators; E starts at C's place
//     epoch 3 A   B   E   D        E is ready, the others end their step: world of 4
//
// An epoch is never repaired. A place is held by a member, a process or a thread, whose memory
// outlives epochs; in each epoch the members that take part are the ranks of a new world, and every
// communicator is made anew. So collectives, mesh and techniques know nothing of failures: they
// throw, and the member comes back with what it still has in memory.
//
// Who takes part is a rule of the job (resilience/regroup.hpp). An epoch ends for all its members
// when
//     one of them dies         the others' calls throw PeerFailed
//     they let others in       all return from run(), at the same step
//     the work is done         all return true
//
// Threads (here): a member dies by RankKilled, and its replacement is there at once. Processes:
// comm/sockets/socket_epochs.hpp. Contract: run() holds nothing of its world when it has ended.
// References: PyTorch, torchelastic and torchft (a quorum for each step; new process groups); ULFM
// (Bland et al. 2013), which mends MPI's communicators instead: revoke, shrink, agree.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"

namespace yotta {

// What ends a thread rank that is killed. It is not an Error, so that no code handles it by
// accident.
class RankKilled : public std::exception {
 public:
  const char* what() const noexcept override { return "it was killed"; }
};

// A member that is ready and takes no part yet. The first at a place is number 0, its replacement
// 1, ...
struct Joiner {
  int place = 0, number = 0;
};

// A member that has died. place -1: a process that had no place yet. epoch 0: before the first.
struct Death {
  int place = 0, number = 0, epoch = 0;
};
// "rank 1 (2 times), rank 6".
std::string describe(const std::vector<Death>& deaths);

struct Epoch {
  int number = 1;
  std::vector<int> places;                          // of its ranks, by rank
  std::function<std::vector<Joiner>()> waiting;     // now; asked by rank 0
  std::function<std::vector<Death>()> deaths = {};  // in the job so far
  // Some bytes that outlive all members, whoever dies: of the last rank 0 that had any to keep.
  std::function<void(const std::string&)> keep = {};
  std::function<std::string()> kept = {};
};

class EpochMember {
 public:
  virtual ~EpochMember() = default;
  // Works as a rank of this epoch. True: the work is done; false: others are to be let in.
  virtual bool run(Communicator& world, const Epoch& epoch) = 0;
};

// Of the places that have a ready member, those that take part, in order; empty: wait for more.
using EpochRule = std::function<std::vector<int>(const std::vector<bool>& ready)>;

// Says when an epoch begins, and who takes part.
class EpochPlanner {
 public:
  EpochPlanner(int places, EpochRule rule)
      : rule_(std::move(rule)), ready_(places), is_member_(places) {}

  void came(int place) { ready_[at(place)] = true; }
  void died(int place);
  void asks() { is_due_ = true; }  // its members have let it end
  // The places of the next epoch, if one is due and there are enough members for it.
  std::optional<std::vector<int>> next();
  // Ready, and not in this epoch.
  std::vector<int> waiting() const;
  // While an epoch is due and too few have come for it: the places that have no ready member.
  std::vector<int> missing() const;
  int number() const { return number_; }  // of the last epoch; 0: none yet

 private:
  static size_t at(int place) { return static_cast<size_t>(place); }

  EpochRule rule_;
  std::vector<bool> ready_, is_member_;  // by place
  bool is_due_ = true;
  int number_ = 0;
};

// Makes the member at a place: number 0 when the job starts, 1 when that has died, ...
using MakeMember = std::function<std::unique_ptr<EpochMember>(const Joiner&)>;

// Runs jobs elsewhere than on threads of this process: comm/sockets/socket_epochs.hpp.
class EpochHost {
 public:
  virtual ~EpochHost() = default;
  // As run_epochs; each process of the job calls it, and makes its own member.
  virtual void run(int places, const MakeMember& make, Where where) = 0;
};
// Who runs the jobs of this process; null: threads. With a RankHost (run_ranks.hpp) and no
// EpochHost, as under mpirun, the first death ends the job.
EpochHost*& epoch_host();

// Runs a job until its work is done. Errors: those that a member threw for a reason of its own, and
// not because another rank had died.
void run_epochs(int places, const EpochRule& rule, const MakeMember& make,
                Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/epochs.ipp"
#endif
