// The bodies of comm/sockets/socket_ranks.hpp.
#pragma once

#include "yotta/comm/sockets/socket_ranks.hpp"

#include <unistd.h>

#include "yotta/core/options.hpp"

namespace yotta {

namespace detail {
inline std::shared_ptr<JobLine> expect_job_line(Where where) {
  if (std::shared_ptr<JobLine> line = JobLine::find(); line != nullptr) return line;
  fail(where,
       "this process is no rank: nothing has started it as one of several. Start them with "
       "run_processes(n, program)");
}

// Waits for the sockets to the other ranks of an epoch.
inline SocketPeers join_epoch(const std::shared_ptr<JobLine>& line, int epoch, Where where) {
  line->say_come(epoch);
  line->await_news([&](const JobNews& news) { return news.epoch >= epoch; }, where);
  const JobNews& news = line->news();
  if (news.epoch != epoch) fail_as<PeerFailed>(where, "epoch {} of this job has ended", epoch);
  SocketPeers peers;
  peers.rank = -1;
  for (const JobProcess& each : news.members) {
    if (each.process == getpid()) peers.rank = static_cast<int>(peers.processes.size());
    peers.processes.push_back(own_address());
    peers.processes.back().pid = each.process;
  }
  if (peers.rank < 0) fail(where, "process {} has no rank in epoch {}", getpid(), epoch);
  peers.sockets = line->take_peers(epoch, static_cast<int>(peers.processes.size()));
  peers.line = line;
  peers.epoch = epoch;
  return peers;
}
inline SocketOptions checked(const SocketRanksOptions& options, Where where) {
  check_option(where, "SocketOptions::eager_bytes", options.sockets, &SocketOptions::eager_bytes,
               {.least = -1, .with_most = false});
  check_option(where, "SocketOptions::patience", options.sockets, &SocketOptions::patience,
               zero_or_more);
  check_option(where, "LinkSpeed::bytes_per_second", options.link, &LinkSpeed::bytes_per_second,
               zero_or_more);
  check_option(where, "LinkSpeed::latency", options.link, &LinkSpeed::latency, zero_or_more);
  return options.sockets;
}
}  // namespace detail

YOTTA_INLINE SocketRanks::SocketRanks(SocketRanksOptions options, Where where)
    : SocketRanks(detail::expect_job_line(where), 1, std::move(options), where) {}
YOTTA_INLINE SocketRanks::SocketRanks(std::shared_ptr<JobLine> line, int epoch,
                                      SocketRanksOptions options, Where where)
    : SocketRanks(detail::join_epoch(line, epoch, where), std::move(options), where) {}
YOTTA_INLINE SocketRanks::SocketRanks(SocketPeers peers, SocketRanksOptions options, Where where)
    : ProcessRanks(options, "--comm processes", "--ranks "),
      options_(detail::checked(options, where)),
      line_(peers.line),
      mesh_(std::make_shared<SocketMesh>(std::move(peers))) {
  join(mesh_->rank(), mesh_->processes());
  if (options.link.is_slow()) mesh_->slow_down(options.link);
}
YOTTA_INLINE SocketRanks::~SocketRanks() {
  leave();
  if (!lost()) end("");
  mesh_->say_goodbye();
  if (!lost() && line_ != nullptr) line_->say_well();
}

YOTTA_INLINE std::shared_ptr<Transport> SocketRanks::make_transport(int n,
                                                                    const RunOptions& options) {
  ++world_;
  if (rank() >= n) {
    mesh_->attach(world_, nullptr);
    return nullptr;
  }
  SocketOptions sockets = options_;
  if (!options.buffered_sends) sockets.eager_bytes = -1;
  return std::make_shared<SocketTransport>(mesh_, n, world_, sockets);
}

YOTTA_INLINE std::vector<std::string> SocketRanks::all_gather(const std::string& mine) {
  for (int other = 0; other < size(); ++other) mesh_->send_text(other, mine);
  std::vector<std::string> texts;
  while (std::ssize(texts) < size()) {
    const int next = static_cast<int>(texts.size());
    if (std::optional<std::string> text = mesh_->take_text(next)) {
      texts.push_back(std::move(*text));
      continue;
    }
    if (mesh_->lost() >= 0) fail_lost(mesh_->describe_lost());
    if (mesh_->is_gone(next)) fail_lost(next);
    check_overdue();
    mesh_->progress(1);
  }
  while (mesh_->is_sending() && mesh_->lost() < 0) mesh_->progress(1);  // until all texts have left
  return texts;
}

}  // namespace yotta
