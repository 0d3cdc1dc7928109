// TCP rendezvous: how processes that know only one address become ranks with a connection to each
// other.
//
//    1  rank 0 listens at node1:29500 (MASTER_ADDR, MASTER_PORT); the others try to connect until
//       they succeed, and send: "rank 2 of 4, process 4711 on node7, my own ports are 40123, 40124,
//       my connections are called 5f0c..."
//    2  when all have come, rank 0 sends each the list of where every process listens
//    3  each rank connects to all others, and tells rank 0 when all its connections stand; when all
//       have, rank 0 says so, no process lets new connections in any more, and they go on
//
// Instead of an address the processes may share a file, which only its owner can read. It holds
// rank 0's port in the first line, the job's key in the second, then one address per line. Rank 0
// makes it, and removes it when all have come. A file of another user, or one that others can read
// or write, is refused.
// Nothing hangs. After `seconds` rank 0 names those that are missing to all others. Programs that
// connect to its port do not matter: they do not have the key (tcp_guard.hpp), and are named. So is
// a process with the key whose greeting is not a rank's; only that process is told.
// Then all have as long again for step 3. Two processes with the same rank, and different
// WORLD_SIZEs, are reported to all at once; so is a process that has come and dies, or that the
// starter reports dead (rank_words.hpp).
// Cost: p - 1 connections to rank 0, 2 p (p - 1) in all; two messages each way with rank 0.
// References: PyTorch, torch.distributed, "TCP initialization", "Shared file-system
// initialization".
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"
#include "yotta/comm/tcp/tcp_sockets.hpp"

namespace yotta {

// --- the file ---

// What the file says.
struct TcpPlace {
  int port = 0;
  std::string key;
  std::vector<std::string> hosts;
};

// This host's addresses that others can reach, then its own for itself. (IPv4 only: where there is
// only IPv6, set MASTER_ADDR.)
inline std::vector<std::string> own_addresses() {
  std::vector<std::string> hosts;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      char numbers[NI_MAXHOST] = "";
      getnameinfo(each->ifa_addr, sizeof(sockaddr_in), numbers, sizeof numbers, nullptr, 0,
                  NI_NUMERICHOST);
      if (*numbers != '\0' && !is_loopback(numbers)) hosts.emplace_back(numbers);
    }
    freeifaddrs(all);
  }
  hosts.emplace_back("127.0.0.1");
  return hosts;
}

inline void write_place(const std::string& name, const TcpPlace& place,
                        Where where = Where::current()) {
  std::string text = fmt::format("{}\n{}\n", place.port, place.key);
  for (const std::string& host : place.hosts) text += host + "\n";
  const std::string draft = name + "." + make_job_key().substr(0, 16);
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool well = file >= 0 && write(file, text.data(), text.size()) == std::ssize(text);
  well = (file < 0 || close(file) == 0) && well;
  if (well && rename(draft.c_str(), name.c_str()) == 0) return;  // no process reads half of it
  const int problem = errno;
  unlink(draft.c_str());
  fail_as<CommError>(where, "cannot write {}: {}", name, std::strerror(problem));
}
// Empty if the file does not exist yet. Errors: it is not this user's alone.
inline TcpPlace read_place(const std::string& name, Where where = Where::current()) {
  TcpPlace place;
  const int file = open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ELOOP)
    fail_as<CommError>(where, "{} is a link; name the file itself", name);
  if (file < 0) return place;
  struct stat about {};
  char text[4096];
  const ssize_t length = fstat(file, &about) == 0 ? read(file, text, sizeof text) : -1;
  close(file);
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0)
    fail_as<CommError>(where,
                       "{} is refused: it belongs to user {}, with mode {:o}; rank 0 makes it as "
                       "user {} with mode 600. Remove it, or name another file",
                       name, about.st_uid, about.st_mode & 0777, geteuid());
  std::istringstream lines(std::string(text, static_cast<size_t>(std::max<ssize_t>(length, 0))));
  lines >> place.port >> place.key;
  for (std::string host; lines >> host;) place.hosts.push_back(host);
  if (place.port < 1 || place.port > 65535 || !is_job_key(place.key)) return {};
  return place;
}

// --- what a process tells rank 0 of itself, and rank 0 all others ---

struct TcpMember {
  int rank = -1, size = 0;
  ProcessAddress process;
  std::string host;  // where it listens, as seen from rank 0; empty: on rank 0's host
  int inbox_port = 0, control_port = 0;
  std::string name;  // of its connections

  std::string description() const {
    return fmt::format("process {} on {}", process.pid, process.host.data());
  }
};

constexpr const char* members_mark = "yotta ranks 3";

inline void put(MessageWriter& writer, const TcpMember& member) {
  for (const int number :
       {member.rank, member.size, member.process.pid, member.inbox_port, member.control_port})
    writer.put(number);
  for (const char* const text : {member.process.host.data(), member.process.space.data()})
    writer.put(std::string(text));
  writer.put(member.host);
  writer.put(member.name);
}
// Errors: what no rank sends.
inline TcpMember take_member(MessageReader& reader) {
  TcpMember member;
  for (int* number :
       {&member.rank, &member.size, &member.process.pid, &member.inbox_port, &member.control_port})
    *number = reader.take<int>();
  for (auto* const array : {&member.process.host, &member.process.space}) {
    const std::string text = reader.take_text();
    if (text.size() >= array->size() || text.find('\0') != text.npos)
      fail(Where::current(), "a name of {} characters", text.size());
    text.copy(array->data(), array->size() - 1);
  }
  member.host = reader.take_text();
  const auto is_port = [](int port) { return port > 0 && port < 65536; };
  if (member.host.size() > 64 || !is_port(member.inbox_port) || !is_port(member.control_port) ||
      member.process.pid < 1)
    fail(Where::current(), "ports {} and {} of process {} at \"{:.64}\"", member.inbox_port,
         member.control_port, member.process.pid, member.host);
  member.name = reader.take_text();
  if (member.name.empty() || member.name.size() > 64)
    fail(Where::current(), "connections with a name of {} characters", member.name.size());
  return member;
}

inline std::string pack_member(const TcpMember& member) {
  MessageWriter writer;
  writer.put(std::string(members_mark));
  put(writer, member);
  return writer.bytes();
}
// Empty, with the reason: it is none.
inline std::optional<TcpMember> unpack_member(std::string_view bytes, std::string& fault) {
  try {
    MessageReader reader(bytes);
    if (reader.take_text() != members_mark) fail(Where::current(), "another version's greeting");
    return take_member(reader);
  } catch (const Error& error) {
    fault = error.what();
    return {};
  }
}

// Rank 0's answer: all members, or why there is no job.
struct TcpRoster {
  std::string refusal;
  std::vector<TcpMember> members;  // by rank
};
inline std::string pack_roster(const TcpRoster& roster) {
  MessageWriter writer;
  writer.put(std::string(members_mark));
  writer.put(roster.refusal);
  for (const TcpMember& each : roster.members) put(writer, each);
  return writer.bytes();
}
// Errors: what no rank 0 sends.
inline TcpRoster unpack_roster(std::string_view bytes, int size) {
  MessageReader reader(bytes);
  if (reader.take_text() != members_mark) fail(Where::current(), "another version's answer");
  TcpRoster roster{reader.take_text(), {}};
  for (int rank = 0; roster.refusal.empty() && rank < size; ++rank) {
    roster.members.push_back(take_member(reader));
    if (roster.members.back().rank != rank) fail(Where::current(), "rank {} twice", rank);
  }
  return roster;
}

// --- the rendezvous ---

// This process, and its sockets.
struct TcpPeers {
  int rank = 0;
  std::vector<ProcessAddress> processes;  // by rank
  std::map<std::string, int> ranks;       // by the names of their connections
  std::unique_ptr<OwnWords> words;
  std::unique_ptr<TcpSockets> sockets;          // null: it is the only rank
  std::vector<std::unique_ptr<TcpLine>> lines;  // by rank; its own is null. They end first
};

// Milliseconds between one attempt to reach rank 0 and the next: more as time goes on.
constexpr int pause_after(int attempt) { return std::min(10 << std::min(attempt / 4, 5), 200); }

class TcpRendezvous {
 public:
  explicit TcpRendezvous(TcpEnvironment self, Where where = Where::current())
      : self_(std::move(self)), where_(where), deadline_(self_.seconds) {
    if (self_.rank < 0 || self_.rank >= self_.size)
      fail(where, "RANK is {}, but WORLD_SIZE is {}: ranks are 0 to {}", self_.rank, self_.size,
           self_.size - 1);
    if (self_.size > 1 && self_.file.empty() && self_.key.empty())
      fail(
          where,
          "rank {} has no key, and does not listen without one: {}; or let all ranks share a file, "
          "YOTTA_RENDEZVOUS_FILE, in place of MASTER_ADDR",
          self_.rank, how_to_make_a_key);
    members_.resize(static_cast<size_t>(self_.size));
    peers_.rank = self_.rank;
    peers_.lines.resize(members_.size());
  }

  // All processes call it. Errors: a rank that has not come, or that exists twice, or has died.
  TcpPeers connect() {
    peers_.words = std::make_unique<OwnWords>(self_.rank);
    try {
      if (self_.size == 1)
        members_[0].process = own_address();
      else if (self_.rank == 0)
        accept_all();
      else
        join();
    } catch (const zmq::error_t& error) {
      fail_as<CommError>(where_, "{}", describe(error));
    }
    if (peers_.sockets != nullptr) peers_.sockets->guard().close_inbox();
    for (const TcpMember& each : members_) {
      peers_.processes.push_back(each.process);
      if (each.rank != self_.rank) peers_.ranks[each.name] = each.rank;
    }
    return std::move(peers_);
  }

 private:
  TcpMember& member(int rank) { return members_[static_cast<size_t>(rank)]; }
  std::unique_ptr<TcpLine>& line(int rank) { return peers_.lines[static_cast<size_t>(rank)]; }
  TcpMember own_member() const {
    return {self_.rank,
            self_.size,
            own_address(),
            "",
            peers_.sockets->inbox_port(),
            peers_.sockets->control_port(),
            peers_.sockets->name()};
  }
  void open_sockets(int port) {
    peers_.sockets = std::make_unique<TcpSockets>(
        self_.key, self_.one_machine, port, self_.rank == 0 ? self_.listen_fd : -1,
        fmt::format("rank {}", self_.rank), where_, self_.size);
  }
  // What to do where ZeroMQ cannot go on.
  std::string describe(const zmq::error_t& error) const {
    const std::string waiting =
        peers_.sockets == nullptr ? "" : peers_.sockets->guard().describe_waiting();
    return fmt::format(
        "rank {} cannot connect to the others: {}.{}{}", self_.rank, error.what(),
        error.num() != EMFILE
            ? ""
            : fmt::format(
                  " This process may have {} open files and connections, and a job needs about 10 "
                  "for each rank: raise the limit (ulimit -n)",
                  raise_descriptor_limit()),
        waiting.empty() ? ""
                        : fmt::format(". Connections that have not shown the job's key: {}; keep "
                                      "these hosts from the ports of this one",
                                      waiting));
  }
  // The word of the starter, while this process waits.
  void expect_none_lost() {
    if (const std::optional<LostRank> lost = peers_.words->heard())
      refuse(fmt::format("rank {} has failed: it {}, before all ranks had found each other",
                         lost->rank, lost->how));
    if (peers_.words->has_listener()) return;  // all ranks should hear the same
    const int dead = watch_.ended();
    if (dead >= 0) refuse(describe_lost_process(dead, member(dead).process));
  }

  // --- rank 0 ---
  void accept_all() {
    if (!self_.file.empty() && self_.key.empty()) self_.key = make_job_key();
    listen();
    member(0) = own_member();
    if (!self_.file.empty())
      write_place(self_.file,
                  {member(0).inbox_port, self_.key,
                   self_.one_machine ? std::vector<std::string>{"127.0.0.1"} : own_addresses()},
                  where_);
    for (int arrived = 1; arrived < self_.size;) {
      expect_none_lost();
      if (deadline_.left() <= 0) refuse(describe_missing());
      arrived += accept_one(std::min(deadline_.left(), 0.1));
    }
    tell_all(pack_roster({"", members_}));
    if (!self_.file.empty()) unlink(self_.file.c_str());
    deadline_ = Deadline(self_.seconds);
    for (int other = 1; other < self_.size; ++other) connect_to(other);
    wait_for_lines();
    while (ready_.size() + 1 < members_.size()) {
      hear_ready();
      expect_time("the connections of all ranks");
    }
    tell_all(go);
  }
  void listen() {
    try {
      open_sockets(self_.file.empty() ? self_.rank0.port : 0);
    } catch (const CommError& error) {
      throw CommError(Error::Verbatim{}, where_,
                      std::string(error.what()) +
                          ". Does another job use it, or another process with RANK=0? Choose "
                          "another MASTER_PORT");
    }
  }
  // A message; empty: none has come in time, or it was no rank's.
  std::optional<TcpMessage> hear(double seconds) {
    zmq::socket_t& inbox = peers_.sockets->inbox();
    zmq::pollitem_t item{inbox.handle(), 0, ZMQ_POLLIN, 0};
    if (!wait_for({&item, 1}, seconds)) return {};
    std::optional<TcpMessage> message = take_message(inbox);
    if (!message || message->fault.empty()) return message;
    peers_.sockets->guard().report_key_holder(message->host(), message->fault);
    return {};
  }
  // Returns how many have come: 1 or 0.
  int accept_one(double seconds) {
    std::optional<TcpMessage> greeting = hear(seconds);
    if (!greeting) return 0;
    std::string fault;
    const std::optional<TcpMember> theirs = unpack_member(greeting->words.to_string_view(), fault);
    if (theirs && theirs->name != greeting->name) fault = "the name of another's connections";
    if (fault.empty()) {
      take(*theirs, greeting->host());
      return 1;
    }
    peers_.sockets->guard().report_key_holder(greeting->host(), fault);
    tell(greeting->name, pack_roster({fmt::format("rank 0 does not understand this process's "
                                                  "greeting: {}",
                                                  fault),
                                      {}}));
    return 0;
  }
  void take(const TcpMember& theirs, const std::string& host) {
    const bool fits = theirs.size == self_.size && theirs.rank > 0 && theirs.rank < self_.size;
    const std::string before = member(fits ? theirs.rank : 0).description();
    const bool taken = fits && has_come(theirs.rank);
    if (fits && !taken) {
      member(theirs.rank) = theirs;
      member(theirs.rank).host = is_loopback(host) ? "" : host;
      return watch_.add(theirs.rank, theirs.process);
    }
    too_many_ = theirs.name;  // it is told, too
    if (taken || theirs.rank == 0)
      refuse(
          fmt::format("two processes say that they are rank {}: {}, and {} at {}; give each a RANK "
                      "of its own, 0 to {}",
                      theirs.rank, before, theirs.description(), host, self_.size - 1));
    refuse(fmt::format("WORLD_SIZE is {} for rank 0 ({}), but {} for rank {} ({} at {})",
                       self_.size, before, theirs.size, theirs.rank, theirs.description(), host));
  }
  bool has_come(int rank) { return !member(rank).name.empty(); }
  std::string describe_missing() {
    std::string missing;
    for (int rank = 1; rank < self_.size; ++rank)
      if (!has_come(rank)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    const std::vector<std::string> refused = peers_.sockets->guard().refused();
    return fmt::format(
        "of {} ranks these have not come within {:g} s: {}. Have they been started, with the same "
        "{} as rank 0 ({})?{}",
        self_.size, self_.seconds, missing,
        self_.file.empty() ? "MASTER_ADDR, MASTER_PORT and YOTTA_JOB_KEY" : "YOTTA_RENDEZVOUS_FILE",
        member(0).description(),
        refused.empty() ? ""
                        : fmt::format(" Connections without the job's key were refused, from {}",
                                      fmt::join(refused, ", ")));
  }
  // Tells all that have come why the rendezvous has failed.
  [[noreturn]] void refuse(const std::string& why) {
    if (self_.rank == 0) {
      tell_all(pack_roster({why, {}}));
      if (!self_.file.empty()) unlink(self_.file.c_str());
    }
    throw CommError(where_, why);
  }
  void tell_all(const std::string& answer) {
    if (peers_.sockets == nullptr) return;
    for (const TcpMember& each : members_)
      if (each.rank > 0) tell(each.name, answer);
    if (!too_many_.empty()) tell(too_many_, answer);
  }
  void tell(const std::string& name, const std::string& answer) {
    zmq::socket_t& inbox = peers_.sockets->inbox();
    inbox.set(zmq::sockopt::linger, 2000);
    try {  // ROUTER_MANDATORY: one that has gone is an error, and is noticed elsewhere
      static_cast<void>(inbox.send(zmq::buffer(name), zmq::send_flags::sndmore));
      static_cast<void>(inbox.send(zmq::buffer(answer), zmq::send_flags::dontwait));
    } catch (const zmq::error_t&) {
      return;
    }
  }

  // --- the others ---
  void join() {
    const std::string key = self_.key;
    std::optional<TcpRoster> roster;
    while (!roster) {
      rank0_host_ = reach_rank0();
      roster = ask_rank0();
      // The file may be an earlier job's, whose rank 0 has ended in the meantime.
      if (!roster && (self_.file.empty() || deadline_.left() < 0.2))
        fail_as<CommError>(where_, "rank {} has reached rank 0 at {}, but it has ended", self_.rank,
                           rank0_host_);
      if (!roster) self_.key = key;
    }
    if (!roster->refusal.empty()) throw CommError(where_, roster->refusal);
    members_ = std::move(roster->members);
    for (int other = 0; other < self_.size; ++other) watch_.add(other, member(other).process);
    deadline_ =
        Deadline(self_.seconds);  // for what follows: the last process may have come just now
    TcpSockets::connect_control(*line(0), rank0_host_, member(0).control_port);
    for (int other = 1; other < self_.size; ++other)
      if (other != self_.rank) connect_to(other);
    wait_for_lines();
    line(0)->data.send(zmq::buffer(std::string(go)), zmq::send_flags::none);
    while (!hears_go()) expect_time("rank 0's word that all have reached each other");
  }
  // Connects to rank 0 as soon as it listens. Returns its address, in numbers.
  std::string reach_rank0() {
    std::string why = "the file does not say where rank 0 is";
    for (int attempt = 0; deadline_.left() > 0; ++attempt) {
      TcpPlace place{self_.rank0.port, self_.key, {}};
      if (!self_.file.empty()) place = read_place(self_.file, where_);
      if (self_.file.empty()) place.hosts = find_addresses(self_.rank0.host, why);
      for (const std::string& host : place.hosts)
        if (deadline_.left() > 0 && reach(host, place, why)) return host;
      expect_none_lost();
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_after(attempt)));
    }
    fail_as<CommError>(
        where_,
        "rank {} could not reach rank 0 at {} within {:g} s: {}. Is rank 0 running, and {}?",
        self_.rank, self_.file.empty() ? self_.rank0.text() : self_.file, self_.seconds, why,
        self_.file.empty() ? "are MASTER_ADDR and MASTER_PORT its host and port"
                           : "is this one file for all hosts");
  }
  // False: not there, for this reason.
  bool reach(const std::string& host, const TcpPlace& place, std::string& why) {
    if (peers_.sockets == nullptr || place.key != self_.key) {
      line(0).reset();
      peers_.sockets.reset();
      self_.key = place.key;
      open_sockets(0);
    }
    line(0) = peers_.sockets->connect(host, place.port, 0);
    const Deadline patience(std::min(self_.file.empty() ? 10.0 : 2.0, deadline_.left()));
    bool connected = false;
    while (patience.left() > 0) {
      expect_none_lost();
      const auto event = line(0)->data_events.next(std::min(patience.left(), 0.1));
      if (!event) continue;
      connected = connected || event->kind == ZMQ_EVENT_CONNECTED;
      if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return true;
      if (is_end(event->kind)) break;
    }
    why = connected
              ? "what listens there is not rank 0 of this job: it does not have its key (another "
                "YOTTA_JOB_KEY, or another program)"
              : fmt::format("nothing listens at {}", endpoint(host, place.port));
    return false;
  }
  // Empty: rank 0 has ended.
  std::optional<TcpRoster> ask_rank0() {
    line(0)->data.send(zmq::buffer(pack_member(own_member())), zmq::send_flags::none);
    const Deadline answers(self_.seconds + 10);  // rank 0 may have started to wait after this rank
    while (answers.left() > 0) {
      expect_none_lost();
      zmq::pollitem_t item{line(0)->data.handle(), 0, ZMQ_POLLIN, 0};
      wait_for({&item, 1}, std::min(answers.left(), 0.1));
      zmq::message_t answer;
      if (try_receive(line(0)->data, answer))
        return unpack_roster(answer.to_string_view(), self_.size);
      while (const auto event = line(0)->data_events.next())
        if (event->kind == ZMQ_EVENT_DISCONNECTED) return {};
    }
    return {};
  }

  // --- all ---
  // No rank goes on, and may leave, before all have all their connections.
  static constexpr const char* go = "go";
  void hear_ready() {
    std::optional<TcpMessage> word = hear(0.1);
    if (!word) return;
    const auto sender = std::find_if(members_.begin(), members_.end(), [&](const TcpMember& each) {
      return each.rank > 0 && each.name == word->name;
    });
    if (sender != members_.end() && word->words.to_string_view() == go)
      ready_.insert(sender->rank);
    else
      peers_.sockets->guard().report_key_holder(word->host(), "an unexpected message");
  }
  bool hears_go() {
    zmq::pollitem_t item{line(0)->data.handle(), 0, ZMQ_POLLIN, 0};
    zmq::message_t word;
    if (!wait_for({&item, 1}, 0.1) || !try_receive(line(0)->data, word)) return false;
    if (word.to_string_view() == go) return true;
    throw CommError(where_, unpack_roster(word.to_string_view(), self_.size).refusal);
  }
  void expect_time(const char* what) {
    expect_none_lost();
    if (deadline_.left() <= 0)
      fail_as<CommError>(where_, "rank {} has waited {:g} s for {}", self_.rank, self_.seconds,
                         what);
  }
  void connect_to(int other) {
    const TcpMember& theirs = member(other);
    const std::string own_host = rank0_host_.empty() ? "127.0.0.1" : rank0_host_;
    line(other) = peers_.sockets->connect(theirs.host.empty() ? own_host : theirs.host,
                                          theirs.inbox_port, theirs.control_port);
  }
  // Until all connections stand.
  void wait_for_lines() {
    for (int other = 0; other < self_.size; ++other)
      if (other != self_.rank && !line_stands(other))
        fail_as<CommError>(where_, "rank {} cannot reach rank {} ({}) at {}", self_.rank, other,
                           member(other).description(), member(other).host);
  }
  // A connection may be refused although its end has the key, when many strangers come at once: it
  // is made again. So is one of which ZeroMQ tells nothing, since there was no descriptor for it.
  bool line_stands(int other) {
    bool has_data = other == 0, has_control = false;  // reach() has seen rank 0's
    for (Deadline quiet(5); deadline_.left() > 0 && !(has_data && has_control);) {
      expect_none_lost();
      while (const auto event = line(other)->control_events.next())
        has_control = has_control || event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
      if (has_data) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      const auto event = line(other)->data_events.next(0.1);
      has_data = event && event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
      const bool has_ended = event && is_end(event->kind);
      if (event) quiet = Deadline(10);
      if (!has_ended && quiet.left() > 0) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      connect_to(other);
      has_control = false;
      quiet = Deadline(5);
    }
    return has_data && has_control;
  }
  static bool is_end(int event) {
    return event == ZMQ_EVENT_CLOSED || event == ZMQ_EVENT_DISCONNECTED;
  }

  TcpEnvironment self_;
  Where where_;
  Deadline deadline_;
  std::vector<TcpMember> members_;  // by rank
  std::string too_many_;            // the connection of a rank that exists twice
  std::string rank0_host_;          // as this process has reached it; empty: this is rank 0
  std::set<int> ready_;             // ranks whose connections all stand
  ProcessWatch watch_;              // of those that have come
  TcpPeers peers_;
};

}  // namespace yotta
