// The bodies of comm/tcp/tcp_ranks.hpp.
#pragma once

#include "yotta/comm/tcp/tcp_ranks.hpp"

// For the compiled form CMake says whether ZeroMQ is there.
#if !defined(YOTTA_COMPILED) && !defined(YOTTA_HAVE_ZMQ) && __has_include(<zmq.hpp>)
#define YOTTA_HAVE_ZMQ
#endif

#ifdef YOTTA_HAVE_ZMQ
#include "yotta/comm/tcp/tcp_rendezvous.hpp"
#include "yotta/comm/tcp/tcp_transport.hpp"
#endif

namespace yotta {

#ifdef YOTTA_HAVE_ZMQ

YOTTA_INLINE bool built_with_zmq() { return true; }

inline TcpEnvironment expect_tcp_environment(Where where) {
  if (const std::optional<TcpEnvironment> self = find_tcp_environment(own_environment, where))
    return *self;
  fail(where,
       "this process does not know its rank: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
       "(as torchrun does) and YOTTA_JOB_KEY, or YOTTA_RENDEZVOUS_FILE in place of the last three");
}

YOTTA_INLINE TcpRanks::TcpRanks(TcpRanksOptions options, Where where)
    : TcpRanks(expect_tcp_environment(where), std::move(options), where) {}
YOTTA_INLINE TcpRanks::TcpRanks(const TcpEnvironment& self, TcpRanksOptions options, Where where)
    : ProcessRanks(options, "the launcher", "WORLD_SIZE="),
      tcp_(options.tcp),
      mesh_(std::make_shared<TcpMesh>(TcpRendezvous(self, where).connect())) {
  join(self.rank, mesh_->processes());
  if (options.link.is_slow()) mesh_->slow_down(options.link);
}
YOTTA_INLINE TcpRanks::~TcpRanks() {
  leave();
  if (!lost()) end("");
  mesh_->say_goodbye();
  if (!lost()) mesh_->words().say_well();
}

YOTTA_INLINE std::string TcpRanks::describe_lost() const { return lost_text_; }
YOTTA_INLINE bool TcpRanks::has_starter() const { return mesh_->words().has_listener(); }

YOTTA_INLINE std::shared_ptr<Transport> TcpRanks::make_transport(int n, const RunOptions& options) {
  ++world_;
  if (rank() >= n) {
    mesh_->attach(world_, nullptr);
    return nullptr;
  }
  TcpOptions tcp = tcp_;
  if (!options.buffered_sends) tcp.eager_bytes = -1;
  return std::make_shared<TcpTransport>(mesh_, n, world_, tcp);
}

YOTTA_INLINE std::vector<std::string> TcpRanks::all_gather(const std::string& mine) {
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

YOTTA_INLINE bool built_with_zmq() { return false; }
YOTTA_INLINE TcpRanks::TcpRanks(TcpRanksOptions options, Where where)
    : TcpRanks(TcpEnvironment(), std::move(options), where) {}
YOTTA_INLINE TcpRanks::TcpRanks(const TcpEnvironment& /*self*/, TcpRanksOptions options,
                                Where where)
    : ProcessRanks(options, "the launcher", "WORLD_SIZE=") {
  fail(where, "{}", no_zmq);
}
YOTTA_INLINE TcpRanks::~TcpRanks() = default;
YOTTA_INLINE std::string TcpRanks::describe_lost() const { return lost_text_; }
YOTTA_INLINE bool TcpRanks::has_starter() const { return false; }
YOTTA_INLINE std::shared_ptr<Transport> TcpRanks::make_transport(int /*n*/,
                                                                 const RunOptions& /*options*/) {
  return nullptr;
}
YOTTA_INLINE std::vector<std::string> TcpRanks::all_gather(const std::string& mine) {
  return {mine};
}

#endif  // YOTTA_HAVE_ZMQ

}  // namespace yotta
