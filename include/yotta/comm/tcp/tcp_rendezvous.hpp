// TCP rendezvous: how processes that know only one address become ranks with a connection to each
// other.
//
//    1  rank 0 listens at node1:29500 (MASTER_ADDR, MASTER_PORT); the others try to connect until
//       they succeed, and send: "rank 2 of 4, process 4711 on node7, I listen at port 40123 myself"
//    2  when all have connected, rank 0 sends everybody the list of where every process listens
//    3  rank 3 connects to 1 and 2, rank 2 to 1: one connection per pair; those to rank 0 exist
//       already
//
// Instead of an address the processes may share a file. It holds rank 0's port in the rank0 line,
// then one address per line. Rank 0 makes it, and removes it when all have connected.
// Nothing hangs. After `seconds` rank 0 tells all who has not come; other programs that connect to
// its port and stay silent (a health check, say) do not matter. Then all have as long again for
// step 3. Two processes with the same rank, and different WORLD_SIZEs, are reported to all at once.
// Any process that can reach the port can join: this is for trusted networks, as MPI's and NCCL's
// own bootstraps are.
// Cost: p - 1 connections to rank 0, p (p - 1) / 2 in all; one message each way on each.
// References: PyTorch, torch.distributed, "TCP initialization", "Shared file-system
// initialization".
#pragma once

#include <ifaddrs.h>
#include <sys/random.h>

#include <fstream>
#include <thread>

#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/tcp/tcp_connections.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"

namespace yotta {

// Writes where rank 0 listens: this port, at the addresses that other hosts can reach, or at this
// host's own. (IPv4 only: where there is only IPv6, set MASTER_ADDR.)
inline void write_address_file(const std::string& name, int port, Where where = Where::current()) {
  const std::string draft = name + ".new";
  std::ofstream file(draft);
  file << port << '\n';
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      const std::string host = numbers_of(each->ifa_addr, sizeof(sockaddr_in)).host;
      if (!host.starts_with("127.")) file << host << '\n';
    }
    freeifaddrs(all);
  }
  file << "127.0.0.1\n";
  file.close();
  if (file.fail() ||
      rename(draft.c_str(), name.c_str()) != 0)  // so that no process reads half of it
    fail_as<CommError>(where, "cannot write {}: {}", name, std::strerror(errno));
}
// Empty if the file does not exist yet.
inline std::vector<TcpAddress> read_address_file(const std::string& name) {
  std::ifstream file(name);
  std::vector<TcpAddress> addresses;
  int port = 0;
  file >> port;
  for (std::string host; file >> host;) addresses.push_back({host, port});
  return addresses;
}

class TcpRendezvous {
 public:
  explicit TcpRendezvous(TcpEnvironment self, Where where = Where::current())
      : self_(std::move(self)), where_(where), deadline_(self_.seconds) {
    if (self_.rank < 0 || self_.rank >= self_.size)
      fail(where, "RANK is {}, but WORLD_SIZE is {}: ranks are 0 to {}", self_.rank, self_.size,
           self_.size - 1);
    members_.resize(static_cast<size_t>(self_.size));
    peers_.rank = self_.rank;
    peers_.sockets.resize(members_.size());
  }

  // All processes call it. Errors: a rank that has not come, or that exists twice.
  TcpPeers connect() {
    if (self_.rank == 0)
      accept_all();
    else
      join();
    for (const Member& each : members_) peers_.processes.push_back(each.process);
    return std::move(peers_);
  }

 private:
  // What a process tells rank 0 of itself, and rank 0 all others.
  struct Member {
    int rank = -1, size = 0;
    uint64_t job =
        0;  // a number that rank 0 draws: no process of another job is taken for one of this
    ProcessAddress process;
    std::array<char, 64> host =
        {};  // where it listens, as seen from rank 0; empty: on rank 0's host
    int port = 0;

    std::string description() const {
      return fmt::format("process {} on {}", process.pid, process.host.data());
    }
  };
  Socket& socket(int rank) { return peers_.sockets[static_cast<size_t>(rank)]; }
  Member& member(int rank) { return members_[static_cast<size_t>(rank)]; }
  Member own_member(int port) const {
    return {.rank = self_.rank, .size = self_.size, .process = own_address(), .port = port};
  }
  static std::string pack_member(const Member& member) {
    MessageWriter writer;
    writer.put(member);
    return writer.bytes();
  }

  // A connection, and what has come on it so far.
  struct Pending {
    Socket socket;
    std::string received = {};
  };
  // Reads what has come. False: it was closed, or the other side is not a rank of ours (write_text
  // of a Member).
  static bool receive(Pending& pending) {
    const TextHeader ours{.length = sizeof(Member)};
    std::array<char, sizeof ours + sizeof(Member)> bytes;
    const ssize_t got =
        recv(pending.socket.fd(), bytes.data(), bytes.size() - pending.received.size(), 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    pending.received.append(bytes.data(), static_cast<size_t>(got));
    return std::memcmp(pending.received.data(), &ours,
                       std::min(pending.received.size(), sizeof ours)) == 0;
  }
  // The next process that has sent its Member, and its connection; empty: none by the deadline. All
  // pending connections are read at the same time.
  std::optional<std::pair<Member, Socket>> accept_next(const Socket& listener) {
    while (deadline_.left() > 0) {
      std::vector<pollfd> polls = {{listener.fd(), POLLIN, 0}};
      for (const Pending& each : pending_) polls.push_back({each.socket.fd(), POLLIN, 0});
      poll(polls.data(), polls.size(),
           static_cast<int>(std::min(deadline_.left(), 1.0) * 1000) + 1);
      for (size_t i = pending_.size(); i-- > 0;) {
        if (polls[i + 1].revents == 0) continue;
        Pending& pending = pending_[i];
        const bool is_ours = receive(pending);
        if (is_ours && pending.received.size() < sizeof(TextHeader) + sizeof(Member)) continue;
        Pending complete = std::move(pending);
        pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
        if (!is_ours) continue;
        const std::string_view bytes =
            std::string_view(complete.received).substr(sizeof(TextHeader));
        return std::pair{MessageReader(bytes).take<Member>(), std::move(complete.socket)};
      }
      if (polls[0].revents == 0) continue;
      if (Socket pending = accept_from(listener, Deadline(0)); pending.is_open())
        pending_.push_back({std::move(pending)});
    }
    return {};
  }

  // --- rank 0 ---
  void accept_all() {
    const Socket listener = listen();
    member(0) = own_member(own_end(listener).port);
    if (getrandom(&member(0).job, sizeof(uint64_t), 0) < 0) member(0).job = 1;
    if (!self_.file.empty()) write_address_file(self_.file, member(0).port, where_);
    for (int arrived = 1; arrived < self_.size; ++arrived) {
      auto pending = accept_next(listener);
      if (!pending) refuse(describe_missing());
      take(pending->first, std::move(pending->second));
    }
    MessageWriter all;
    all.put(std::string());
    for (const Member& each : members_) all.put(each);
    tell_all(all.bytes());
    if (!self_.file.empty()) unlink(self_.file.c_str());
  }
  Socket listen() const {
    try {
      return listen_at(self_.file.empty() ? self_.rank0.port : 0, where_);
    } catch (const CommError& error) {
      throw CommError(Error::Verbatim{}, where_,
                      std::string(error.what()) +
                          ". Does another job use it, or another process with RANK=0? Choose "
                          "another MASTER_PORT");
    }
  }
  void take(const Member& theirs, Socket pending) {
    const bool fits = theirs.size == self_.size && theirs.rank > 0 && theirs.rank < self_.size;
    const int problem_with = fits ? theirs.rank : 0;
    const std::string before = member(problem_with).description();
    const bool taken = fits && socket(theirs.rank).is_open();
    const std::string other_end_host = other_end(pending).host;
    if (fits && !taken) {
      member(theirs.rank) = theirs;
      member(theirs.rank).job = member(0).job;
      if (other_end_host != own_end(pending).host)
        other_end_host.copy(member(theirs.rank).host.data(), member(0).host.size() - 1);
      socket(theirs.rank) = std::move(pending);
      return;
    }
    refused_ = std::move(pending);  // it is told, too
    if (taken || theirs.rank == 0)
      refuse(
          fmt::format("two processes say that they are rank {}: {}, and {}; give each a RANK of "
                      "its own, 0 to {}",
                      theirs.rank, before, theirs.description(), self_.size - 1));
    refuse(fmt::format("WORLD_SIZE is {} for rank 0 ({}), but {} for rank {} ({})", self_.size,
                       before, theirs.size, theirs.rank, theirs.description()));
  }
  std::string describe_missing() {
    std::string missing;
    for (int rank = 1; rank < self_.size; ++rank)
      if (!socket(rank).is_open())
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    return fmt::format(
        "of {} ranks these have not come within {:g} s: {}. Have they been started, with the same "
        "{} as rank 0 ({})?",
        self_.size, self_.seconds, missing,
        self_.file.empty() ? "MASTER_ADDR and MASTER_PORT" : "YOTTA_RENDEZVOUS_FILE",
        member(0).description());
  }
  // Tells all that have connected why the rendezvous has failed.
  [[noreturn]] void refuse(const std::string& why) {
    MessageWriter text;
    text.put(why);
    tell_all(text.bytes());
    if (refused_.is_open()) write_text(refused_, text.bytes(), Deadline(1));
    if (!self_.file.empty()) unlink(self_.file.c_str());
    throw CommError(where_, why);
  }
  void tell_all(const std::string& text) {
    for (const Socket& each : peers_.sockets)
      if (each.is_open()) write_text(each, text, Deadline(5));
  }

  // --- the others ---
  void join() {
    const Socket listener = listen_at(0, where_);
    TcpAddress rank0_address;
    std::optional<std::string> answer;
    for (;;) {
      rank0_address = reach_rank0();
      const Deadline answers(self_.seconds +
                             10);  // rank 0 may have started to wait after this rank
      write_text(socket(0), pack_member(own_member(own_end(listener).port)), answers);
      answer = read_text(socket(0), answers);
      if (answer || self_.file.empty() || deadline_.left() < 0.2) break;
      // The file may be an earlier job's, and the port in it another program's by now.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (!answer)
      fail_as<CommError>(where_,
                         "rank {} has reached {}, but what is there is no rank 0, or has ended: is "
                         "the port another program's?",
                         self_.rank, rank0_address.text());
    MessageReader reader(*answer);
    if (const std::string refusal = reader.take_text(); !refusal.empty())
      throw CommError(where_, refusal);
    for (Member& each : members_) each = reader.take<Member>();
    deadline_ =
        Deadline(self_.seconds);  // for what follows: the last process may have come just now
    for (int other = 1; other < self_.rank; ++other) connect_to_rank(other, rank0_address);
    for (int missing = self_.size - 1 - self_.rank; missing > 0;) missing -= accept_rank(listener);
  }
  // Connects to rank 0 as soon as it listens. Returns its address.
  TcpAddress reach_rank0() {
    std::string why = "the file does not say where rank 0 is";
    for (int attempt = 0; deadline_.left() > 0; ++attempt) {
      const auto addresses =
          self_.file.empty() ? std::vector{self_.rank0} : read_address_file(self_.file);
      for (const TcpAddress& address : addresses) {
        socket(0) = connect_to(address, Deadline(std::min(5.0, deadline_.left())), why);
        if (socket(0).is_open()) return address;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(10 << attempt / 4, 500)));
    }
    fail_as<CommError>(
        where_,
        "rank {} could not reach rank 0 at {} within {:g} s: {}. Is rank 0 running, and {}?",
        self_.rank, self_.file.empty() ? self_.rank0.text() : self_.file, self_.seconds, why,
        self_.file.empty() ? "are MASTER_ADDR and MASTER_PORT its host and port"
                           : "is this one file for all hosts");
  }
  void connect_to_rank(int other, const TcpAddress& rank0_address) {
    const Member& theirs = member(other);
    const TcpAddress address{theirs.host[0] != '\0' ? theirs.host.data() : rank0_address.host,
                             theirs.port};
    std::string why;
    socket(other) = connect_to(address, deadline_, why);
    if (!socket(other).is_open())
      fail_as<CommError>(where_, "rank {} cannot reach rank {} ({}) at {}: {}", self_.rank, other,
                         theirs.description(), address.text(), why);
    write_text(socket(other), pack_member(member(self_.rank)), deadline_);
  }
  // Returns 1 for a rank of this job, 0 for any other process.
  int accept_rank(const Socket& listener) {
    auto pending = accept_next(listener);
    if (!pending)
      fail_as<CommError>(where_, "rank {} has waited {:g} s for the connections of higher ranks",
                         self_.rank, self_.seconds);
    if (pending->first.job != member(0).job) return 0;
    socket(pending->first.rank) = std::move(pending->second);
    return 1;
  }

  TcpEnvironment self_;
  Where where_;
  Deadline deadline_;
  std::vector<Member> members_;  // by rank
  TcpPeers peers_;
  std::vector<Pending> pending_;  // that have not sent their Member yet
  Socket refused_;                // the connection of a process that does not belong here
};

}  // namespace yotta
