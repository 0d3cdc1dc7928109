// TcpRanks: processes as ranks of run_ranks (process_ranks.hpp), without MPI.
//
//   int main() {
//     TcpRanks ranks;    they find each other by torchrun's variables, or by a file: tcp_launch.hpp
//     run_ranks(ranks.size(), [](Communicator& world) { ... });
//   }                    waits for the others, and says goodbye
//
// Without YOTTA_HAVE_ZMQ, which CMake defines where it finds ZeroMQ, the constructor says what to
// install.
#pragma once

#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"
#include "yotta/comm/tcp/tcp_throttle.hpp"

#if YOTTA_BODIES_OF(transports)
#ifdef YOTTA_HAVE_ZMQ
#include "yotta/comm/tcp/tcp_rendezvous.hpp"
#include "yotta/comm/tcp/tcp_transport.hpp"
#endif
#endif  // YOTTA_BODIES

namespace yotta {

class TcpMesh;

// Were the library's bodies compiled with ZeroMQ?
YOTTA_API bool built_with_zmq();
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
  YOTTA_API explicit TcpRanks(TcpRanksOptions options = {}, Where where = Where::current());
  YOTTA_API explicit TcpRanks(const TcpEnvironment& self, TcpRanksOptions options = {},
                              Where where = Where::current());
  YOTTA_API ~TcpRanks() override;
  // The process that was lost, if lost(): "rank 2 has failed: its process, 4711 on node7, ...".
  YOTTA_API std::string describe_lost() const;
  // Does the process that has started it hear of lost ranks by itself? (start_processes does.)
  YOTTA_API bool has_starter() const;

 private:
  YOTTA_API std::shared_ptr<Transport> make_transport(int n, const RunOptions& options) override;
  YOTTA_API std::vector<std::string> all_gather(const std::string& mine) override;

  [[maybe_unused]] TcpOptions tcp_;
  [[maybe_unused]] std::shared_ptr<TcpMesh> mesh_;
  [[maybe_unused]] int32_t world_ = 0;  // the number of runs
  std::string lost_text_;
};

#if YOTTA_BODIES_OF(transports)

#ifdef YOTTA_HAVE_ZMQ

bool built_with_zmq() { return true; }

inline TcpEnvironment expect_tcp_environment(Where where) {
  if (const std::optional<TcpEnvironment> self = find_tcp_environment(own_environment, where))
    return *self;
  fail(where,
       "this process does not know its rank: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
       "(as torchrun does) and YOTTA_JOB_KEY, or YOTTA_RENDEZVOUS_FILE in place of the last three");
}

TcpRanks::TcpRanks(TcpRanksOptions options, Where where)
    : TcpRanks(expect_tcp_environment(where), std::move(options), where) {}
TcpRanks::TcpRanks(const TcpEnvironment& self, TcpRanksOptions options, Where where)
    : ProcessRanks(options, "the launcher", "WORLD_SIZE="),
      tcp_(options.tcp),
      mesh_(std::make_shared<TcpMesh>(TcpRendezvous(self, where).connect())) {
  join(self.rank, mesh_->processes());
  if (options.link.is_slow()) mesh_->slow_down(options.link);
}
TcpRanks::~TcpRanks() {
  leave();
  if (!lost()) end("");
  mesh_->say_goodbye();
  if (!lost()) mesh_->words().say_well();
}

std::string TcpRanks::describe_lost() const { return lost_text_; }
bool TcpRanks::has_starter() const { return mesh_->words().has_listener(); }

std::shared_ptr<Transport> TcpRanks::make_transport(int n, const RunOptions& options) {
  ++world_;
  if (rank() >= n) {
    mesh_->attach(world_, nullptr);
    return nullptr;
  }
  TcpOptions tcp = tcp_;
  if (!options.buffered_sends) tcp.eager_bytes = -1;
  return std::make_shared<TcpTransport>(mesh_, n, world_, tcp);
}

std::vector<std::string> TcpRanks::all_gather(const std::string& mine) {
  for (int other = 0; other < size(); ++other) mesh_->send_text(other, mine);
  std::vector<std::string> texts;
  while (std::ssize(texts) < size()) {
    const int next = static_cast<int>(texts.size());
    if (std::optional<std::string> text = mesh_->take_text(next)) {
      texts.push_back(std::move(*text));
      continue;
    }
    if (mesh_->lost() >= 0 || mesh_->is_gone(next)) {
      lost_text_ =
          mesh_->lost() >= 0 ? mesh_->describe_lost() : describe_lost_process(next, address(next));
      fail_lost(lost_text_);
    }
    check_overdue();
    mesh_->progress(1);
  }
  while (mesh_->is_sending() && mesh_->lost() < 0) mesh_->progress(1);  // until all texts have left
  return texts;
}

#else

bool built_with_zmq() { return false; }
TcpRanks::TcpRanks(TcpRanksOptions options, Where where)
    : TcpRanks(TcpEnvironment(), std::move(options), where) {}
TcpRanks::TcpRanks(const TcpEnvironment& /*self*/, TcpRanksOptions options, Where where)
    : ProcessRanks(options, "the launcher", "WORLD_SIZE=") {
  fail(where, "{}", no_zmq);
}
TcpRanks::~TcpRanks() = default;
std::string TcpRanks::describe_lost() const { return lost_text_; }
bool TcpRanks::has_starter() const { return false; }
std::shared_ptr<Transport> TcpRanks::make_transport(int /*n*/, const RunOptions& /*options*/) {
  return nullptr;
}
std::vector<std::string> TcpRanks::all_gather(const std::string& mine) { return {mine}; }

#endif  // YOTTA_HAVE_ZMQ

#endif  // YOTTA_BODIES

}  // namespace yotta
