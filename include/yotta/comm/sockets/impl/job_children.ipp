// The bodies of comm/sockets/job_children.hpp.
#pragma once

#include "yotta/comm/sockets/job_children.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/sockets/job_line.hpp"

namespace yotta {

YOTTA_INLINE void expect_child_ranks(int ranks, Where where) {
  if (ranks < 1 || ranks > most_child_ranks)
    fail(where,
         "--comm processes starts from 1 to {} ranks, not {}: each has a socket to each other. "
         "--comm threads has more on one machine, --comm mpi on several",
         most_child_ranks, ranks);
}

YOTTA_INLINE JobChild start_child(const std::vector<std::string>& program, int rank, int ranks,
                                  const std::vector<std::string>& more) {
  auto [own, its] = joined_sockets(SOCK_SEQPACKET);
  std::vector<std::string> settings = {fmt::format("RANK={}", rank),
                                       fmt::format("LOCAL_RANK={}", rank),
                                       fmt::format("WORLD_SIZE={}", ranks),
                                       fmt::format("LOCAL_WORLD_SIZE={}", ranks),
                                       fmt::format("{}={}", starter_variable, getpid()),
                                       fmt::format("{}=fd:{}", words_variable, its.number())};
  settings.insert(settings.end(), more.begin(), more.end());
  const pid_t process =
      start_process(program, own_environment_with(settings), SIGKILL, its.number());
  return {process, std::make_shared<WordLine>(std::move(own))};
}

YOTTA_INLINE bool SocketPairs::give() {
  for (; first_ + 1 < lines_.size(); second_ = ++first_ + 1)
    for (; second_ < lines_.size(); ++second_) {
      WordLine &first = *lines_[first_], &second = *lines_[second_];
      first.flush(), second.flush();
      if (first.has_waiting() || second.has_waiting()) return false;
      auto [one, other] = joined_sockets(SOCK_STREAM);
      first.put(fmt::format("peer {} {}", epoch_, second_), std::move(one));
      second.put(fmt::format("peer {} {}", epoch_, first_), std::move(other));
    }
  return true;
}

}  // namespace yotta
