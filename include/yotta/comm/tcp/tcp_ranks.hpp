// TcpRanks: processes as ranks of run_ranks (process_ranks.hpp), without MPI.
//
//   int main() {
//     TcpRanks ranks;    they find each other by torchrun's variables, or by a file: tcp_launch.hpp
//     run_ranks(ranks.size(), [](Communicator& world) { ... });
//   }                    waits for the others, and says goodbye
//
// Without ZeroMQ's header the constructor says what to install; with it, link -lzmq.
#pragma once

#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"
#include "yotta/comm/tcp/tcp_throttle.hpp"

namespace yotta {

class TcpMesh;

// Were the library's bodies compiled with ZeroMQ?
bool built_with_zmq();
// What to install, if not.
inline constexpr const char* no_zmq =
    "this program was built without ZeroMQ, which moves the bytes of --comm tcp. Install it "
    "(Debian, "
    "Ubuntu: apt-get install libzmq3-dev cppzmq-dev) and build again (./yotta clean)";

struct TcpRanksOptions : ProcessRanksOptions {
  TcpOptions tcp = {};
  LinkSpeed link = {};  // what is sent is slowed down to this
};

class TcpRanks : public ProcessRanks {
 public:
  // Errors: processes that have not come; variables that are not set.
  explicit TcpRanks(TcpRanksOptions options = {}, Where where = Where::current());
  explicit TcpRanks(const TcpEnvironment& self, TcpRanksOptions options = {},
                    Where where = Where::current());
  ~TcpRanks() override;
  // The process that was lost, if lost(): "rank 2 has failed: its process, 4711 on node7, ...".
  std::string describe_lost() const;
  // Does the process that has started it hear of lost ranks by itself? (start_processes does.)
  bool has_starter() const;

 private:
  std::shared_ptr<Transport> make_transport(int n, const RunOptions& options) override;
  std::vector<std::string> all_gather(const std::string& mine) override;

  [[maybe_unused]] TcpOptions tcp_;
  [[maybe_unused]] std::shared_ptr<TcpMesh> mesh_;
  [[maybe_unused]] int32_t world_ = 0;  // the number of runs
  std::string lost_text_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/tcp/impl/tcp_ranks.ipp"
#endif
