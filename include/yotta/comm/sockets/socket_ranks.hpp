// SocketRanks: processes of one machine as ranks of run_ranks (process_ranks.hpp), joined by
// sockets that they inherit.
//
//   int main(int argc, char** argv) {
//     if (JobLine::find() == nullptr)                           started by hand: starts 4 of itself
//       return run_processes(4, {argv, argv + argc}).status;
//     SocketRanks ranks;                                        in each of the 4
//     run_ranks(ranks.size(), [](Communicator& world) { ... });
//   }                                                           waits for the others, and says
//                                                               goodbye
#pragma once

#include "yotta/comm/processes/link_throttle.hpp"
#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/sockets/run_processes.hpp"
#include "yotta/comm/sockets/socket_transport.hpp"

namespace yotta {

struct SocketRanksOptions : ProcessRanksOptions {
  SocketOptions sockets = {};
  LinkSpeed link = {};  // what is sent is slowed down to this
};

class SocketRanks : public ProcessRanks {
 public:
  // Errors: no starter (run_processes) has started this process.
  explicit SocketRanks(SocketRanksOptions options = {}, Where where = Where::current());
  // The ranks of an epoch of a job. Errors: PeerFailed, if it has ended by now.
  SocketRanks(std::shared_ptr<JobLine> line, int epoch, SocketRanksOptions options = {},
              Where where = Where::current());
  // Ranks of processes that have found each other in another way.
  explicit SocketRanks(SocketPeers peers, SocketRanksOptions options = {},
                       Where where = Where::current());
  ~SocketRanks() override;

 private:
  std::shared_ptr<Transport> make_transport(int n, const RunOptions& options) override;
  std::vector<std::string> all_gather(const std::string& mine) override;

  SocketOptions options_;
  std::shared_ptr<JobLine> line_;
  std::shared_ptr<SocketMesh> mesh_;
  int32_t world_ = 0;  // the number of runs
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/socket_ranks.ipp"
#endif
