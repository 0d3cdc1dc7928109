// Epochs on processes of one machine: a job (comm/epochs.hpp) whose members may be killed with
// SIGKILL.
//
//     run_members (run_members.hpp)       starts one process for each place
//         news                            epoch 3, who takes part, who waits, who has died
//     SocketEpochs, in each process       makes SocketRanks anew for each epoch, runs its member
//         come 0                          it is ready; the starter gives it a place
//         asks 3                          epoch 3 has ended for it, and others are to be let in
//         note kept                       what rank 0 keeps for those that come after it
//         finished                        the work is done
//
// A spare is a process that has come and has no place: it gets that of the first who dies.
//
// The starter is the parent of all, so it hears of each death. It tells the ranks of the epoch,
// whose sockets to the dead one have ended, too: their calls throw; each comes back to this file
// and waits for the next epoch, with what it has in memory. There it has new sockets to the others,
// so any rank may die, rank 0 too. The starter itself may not: all its processes end with it.
//
// Cost: a new epoch takes a pair of sockets for each two ranks, and some words to each.
#pragma once

#include <functional>
#include <memory>

#include "yotta/comm/epochs.hpp"
#include "yotta/comm/sockets/socket_ranks.hpp"

namespace yotta {

class SocketEpochs : public EpochHost {
 public:
  // Null: this process was not started by run_members. on_epoch(rank) is called when an epoch
  // begins; -1: this process takes no part. `link`: what is sent in all epochs is slowed to this.
  static std::unique_ptr<SocketEpochs> find(std::function<void(int rank)> on_epoch,
                                            const LinkSpeed& link = {},
                                            const Environment& get = own_environment);
  ~SocketEpochs() override;

  void run(int places, const MakeMember& make, Where where) override;
  // Is, or was, it the first rank of the last epoch? Before the first: is it at the first place?
  bool is_first() const { return rank_ == 0; }

 private:
  SocketEpochs(std::shared_ptr<JobLine> line, int place, std::function<void(int)> on_epoch,
               const LinkSpeed& link)
      : line_(std::move(line)), on_epoch_(std::move(on_epoch)), link_(link), rank_(place) {}
  Epoch enter(const JobNews& news);
  bool run_epoch(const JobNews& news, EpochMember& member, Where where);

  std::shared_ptr<JobLine> line_;
  std::function<void(int)> on_epoch_;
  LinkSpeed link_;
  int rank_;  // in the last epoch; -1: it took no part
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/socket_epochs.ipp"
#endif
