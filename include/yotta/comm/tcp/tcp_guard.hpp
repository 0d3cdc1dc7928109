// The guard of a job over TCP: a thread that decides which connections may stay.
//
//     a connection comes ──► ZeroMQ asks: is this the key of the job? ──► no: it ends, and is named
//                        └─► it is silent: it waits, with the others that have not shown the key
//                                         ten seconds, or until too many wait ──► the oldest ends
//
// The key (tcp_launch.hpp) is a secret key of CURVE, ZeroMQ's encryption; all ranks use the same
// pair of keys. A program that does not know the key cannot finish the handshake, as either side:
// it cannot join, send or read. The guard answers the question that ZeroMQ asks in each handshake
// (ZAP).
//
// A connection costs a file descriptor before it has shown the key, so a flood of silent ones could
// use up all descriptors of the process. The guard keeps their number within a quarter of what the
// process may have: beyond it, the oldest connection of the host that has more than half of them is
// shut down, or else the oldest of all. A rank that is hit by that tries again.
// ZeroMQ's thread closes connections while the guard looks at them. So the guard looks at a
// duplicate of the descriptor, which cannot become another connection in between.
//
// What is printed is limited: one line for each of the first eight hosts. The number of connections
// is counted for every host.
// Cost: some 10 microseconds of one thread for each connection that comes.
// References: ZeroMQ RFCs 26 (CurveZMQ) and 27 (ZAP); zmq_socket_monitor(3).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "yotta/comm/tcp/tcp_launch.hpp"
#include "yotta/comm/tcp/tcp_system.hpp"

namespace yotta {

// --- strangers ---

// Where connections without the key came from, and how often.
class Strangers {
 public:
  enum class Kind { wrong, silent };  // the second: a health check, or a rank that tried too soon

  void note(const TcpAddress& from, Kind kind) {
    std::map<std::string, Visits>& hosts = of(kind);
    const auto found = hosts.find(from.host);
    if (found != hosts.end()) return static_cast<void>(++found->second.count);
    if (hosts.size() < most_hosts) hosts[from.host] = {from, 1};
  }
  // "10.0.0.5:40123 (3 times)": those that have said something wrong first, then silent ones; those
  // that came most often first.
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const Kind kind : {Kind::wrong, Kind::silent}) {
      std::multimap<int64_t, const Visits*, std::greater<>> visits;
      for (const auto& [host, each] : of(kind)) visits.emplace(each.count, &each);
      size_t named = 0;
      for (const auto& [count, each] : visits)
        if (named++ < most_named) all.push_back(text(*each, kind));
    }
    return all;
  }

 private:
  static constexpr size_t most_hosts = 64, most_named = 8;  // of each kind
  struct Visits {
    TcpAddress first;
    int64_t count = 0;
  };
  static std::string text(const Visits& visits, Kind kind) {
    std::string notes = kind == Kind::silent ? "silent" : "";
    if (visits.count > 1)
      notes += fmt::format("{}{} times", notes.empty() ? "" : ", ", visits.count);
    return visits.first.text() + (notes.empty() ? "" : fmt::format(" ({})", notes));
  }
  std::map<std::string, Visits>& of(Kind kind) { return kind == Kind::wrong ? wrong_ : silent_; }
  const std::map<std::string, Visits>& of(Kind kind) const {
    return kind == Kind::wrong ? wrong_ : silent_;
  }

  std::map<std::string, Visits> wrong_, silent_;  // by host
};

// Prints one line for each of the first hosts, and one for all others.
class OncePerHost {
 public:
  void print(const std::string& host, const std::string& line) {
    if (hosts_.size() > most || !hosts_.insert(host).second) return;
    fmt::print(stderr, "{}\n",
               hosts_.size() <= most ? line : line + " (More such hosts are not printed.)");
  }

 private:
  static constexpr size_t most = 8;
  std::set<std::string> hosts_;
};

// --- the guard ---

class TcpGuard {
 public:
  // Lets so many connections wait that have not shown the key.
  TcpGuard(zmq::context_t& context, const CurveKeys& keys, size_t most_waiting)
      : keys_(keys),
        most_waiting_(most_waiting),
        questions_(context, zmq::socket_type::rep),
        orders_(context, zmq::socket_type::pair),
        ordered_(context, zmq::socket_type::pair) {
    for (zmq::socket_t* each : {&questions_, &orders_, &ordered_})
      each->set(zmq::sockopt::linger, 0);
    questions_.bind("inproc://zeromq.zap.01");
    ordered_.bind("inproc://guard");
    orders_.connect("inproc://guard");
  }
  TcpGuard(const TcpGuard&) = delete;
  TcpGuard& operator=(const TcpGuard&) = delete;
  ~TcpGuard() {
    if (!thread_.joinable()) return;
    orders_.send(zmq::message_t(), zmq::send_flags::dontwait);
    thread_.join();
  }
  // From here on it answers, and watches what connects to these sockets. `place` is for what it
  // says.
  void start(zmq::context_t& context, zmq::socket_t& inbox, zmq::socket_t& control,
             const std::string& place) {
    place_ = place;
    inbox_.events = std::make_unique<SocketEvents>(context, inbox, "came_to_inbox");
    control_.events = std::make_unique<SocketEvents>(context, control, "came_to_control");
    sigset_t all, before;  // signals are for the rank's own thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { work(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  // All ranks are connected: from here on no connection to the inbox is let in, and those that have
  // not shown the key end. Returns at once.
  void close_inbox() { orders_.send(zmq::str_buffer("close"), zmq::send_flags::dontwait); }
  // Says that a process there has the key, and sends what no rank sends. (It is dropped.)
  void report_key_holder(const std::string& host, const std::string& fault) {
    const std::lock_guard lock(mutex_);
    key_holders_.print(host, fmt::format("{}: a process at {} has the job's key, but what it sends "
                                         "is not a rank's, and is dropped: {}",
                                         place_, host, fault));
  }
  // Where refused connections came from: Strangers::texts.
  std::vector<std::string> refused() const {
    const std::lock_guard lock(mutex_);
    return strangers_.texts();
  }
  // "3 from 10.0.0.5, 1 from 10.0.0.6": the connections that wait; empty if none does.
  std::string describe_waiting() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const auto& [host, each] : waiting_)
      if (texts.size() < 8) texts.push_back(fmt::format("{} from {}", each.size(), host));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

 private:
  struct Connection {
    TcpAddress from;
    uint64_t number = 0;       // in the order in which they came
    bool is_answered = false;  // it has shown a key, and heard whether it is the right one
  };
  // A socket that listens.
  struct Door {
    std::unique_ptr<SocketEvents> events = nullptr;
    int listening_fd = -1, port = 0;
    bool is_closed = false;
    // Of the connection that the next event tells the end of.
    bool was_silent = false;
    // Connections that ZeroMQ has answered, less those that are known to be (is_answered).
    int unseen = 0;
    std::map<int, Connection> connections = {};  // by descriptor
  };
  struct Waiting {
    Door* door;
    int fd;
  };

  void work() {
    for (;;) {
      zmq::pollitem_t items[] = {{questions_.handle(), 0, ZMQ_POLLIN, 0},
                                 {inbox_.events->socket().handle(), 0, ZMQ_POLLIN, 0},
                                 {control_.events->socket().handle(), 0, ZMQ_POLLIN, 0},
                                 {ordered_.handle(), 0, ZMQ_POLLIN, 0}};
      wait_for(items, inbox_.unseen > 0 || control_.unseen > 0 ? 0.002 : 3600);
      for (Door* door : {&inbox_, &control_}) read_events(*door);
      answer_one();
      zmq::message_t order;
      if (!try_receive(ordered_, order)) continue;
      if (order.size() == 0) return;
      close_door(inbox_);
    }
  }
  // ZAP: version, id, domain, address, identity, mechanism, key.
  void answer_one() {
    std::vector<zmq::message_t> question;
    do {
      if (!try_receive(questions_, question.emplace_back())) return;
    } while (question.back().more());
    const bool allowed = question.size() == 7 && question[5].to_string_view() == "CURVE" &&
                         question[6].size() == 32 &&
                         are_equal(question[6].data<uint8_t>(), keys_.open_bytes.data(), 32);
    if (!allowed && question.size() > 3) {
      const std::lock_guard lock(mutex_);
      refuse({plain_address(question[3].to_string()), 0}, Strangers::Kind::wrong);
    }
    const std::string id = question.size() > 1 ? question[1].to_string() : "";
    const std::array<std::string, 6> reply = {
        "1.0", id, allowed ? "200" : "400", allowed ? "OK" : "not the key of this job", "", ""};
    for (size_t i = 0; i < reply.size(); ++i)
      questions_.send(zmq::buffer(reply[i]),
                      i + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }

  // --- connections ---
  void read_events(Door& door) {
    std::vector<SocketEvents::Event> events;
    while (events.size() < 256) {
      const auto event = door.events->next();
      if (!event) break;
      events.push_back(*event);
    }
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < events.size(); ++i) {
      const bool is_used_again =
          std::any_of(events.begin() + static_cast<std::ptrdiff_t>(i) + 1, events.end(),
                      [&](const SocketEvents::Event& later) {
                        return later.kind == ZMQ_EVENT_ACCEPTED && later.value == events[i].value;
                      });
      note(door, events[i], is_used_again);
    }
    find_answered(door);
  }
  // is_used_again: the descriptor belongs to a later connection by now.
  void note(Door& door, const SocketEvents::Event& event, bool is_used_again) {
    const int fd = static_cast<int>(event.value);
    switch (event.kind) {
      case ZMQ_EVENT_LISTENING:
        door.listening_fd = fd;
        door.port = port_of(fd);
        return;
      case ZMQ_EVENT_ACCEPTED: return came(door, fd, is_used_again);
      // ZeroMQ's thread tells of it just before the end of the same connection.
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: door.was_silent = true; return;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: ++door.unseen; return;
      case ZMQ_EVENT_DISCONNECTED: return ended(door, fd);
      default: return;
    }
  }
  void came(Door& door, int fd, bool is_used_again) {
    Connection it{{"", 0}, ++numbers_};
    if (!is_used_again)
      it.from = borrowed_.look_at(fd, it.from, [&](int same) {
        return port_of(same) == door.port ? other_end(same) : TcpAddress{"", 0};
      });
    door.connections[fd] = it;
    waiting_[it.from.host][it.number] = {&door, fd};
    ++waiting_count_;
    if (door.is_closed) end_if_stranger(door, fd);
    while (waiting_count_ > most_waiting_) end_oldest();
  }
  void ended(Door& door, int fd) {
    const bool was_silent = std::exchange(door.was_silent, false);
    const auto found = door.connections.find(fd);
    if (found == door.connections.end()) return;
    const Connection it = found->second;
    waits_no_more(it);
    door.connections.erase(found);
    if (it.is_answered) return;
    if (door.unseen > 0 && !was_silent) return static_cast<void>(--door.unseen);  // a short one
    refuse(it.from, was_silent ? Strangers::Kind::silent : Strangers::Kind::wrong);
  }
  void answered(Door& door, Connection& it) {
    if (std::exchange(it.is_answered, true)) return;
    waits_no_more(it);
    --door.unseen;
  }
  // The bytes leave just after ZeroMQ has reported the answer.
  void find_answered(Door& door) {
    for (auto& [fd, it] : door.connections) {
      if (door.unseen <= 0) return;
      if (!it.is_answered && borrowed_.look_at(fd, false, has_shown_key)) answered(door, it);
    }
  }
  void waits_no_more(const Connection& it) {
    const auto host = waiting_.find(it.from.host);
    if (host == waiting_.end() || host->second.erase(it.number) == 0) return;
    if (host->second.empty()) waiting_.erase(host);
    --waiting_count_;
  }
  // The oldest of the host that has more than half of them; if none has, the oldest of all.
  void end_oldest() {
    auto host = std::max_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (2 * host->second.size() <= waiting_count_)
      host = std::min_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) {
        return a.second.begin()->first < b.second.begin()->first;
      });
    const std::string name = host->first;
    const size_t count = host->second.size();
    const Waiting oldest = host->second.begin()->second;
    if (end_if_stranger(*oldest.door, oldest.fd))
      floods_.print(name,
                    fmt::format("{}: {} connections have not shown the key of this job, {} of them "
                                "from {}; the oldest are closed",
                                place_, most_waiting_ + 1, count,
                                name.empty() ? "addresses that are gone" : name));
  }
  // Returns whether it was one. In both cases it waits no more.
  bool end_if_stranger(Door& door, int fd) {
    Connection& it = door.connections[fd];
    waits_no_more(it);
    if (it.is_answered) return false;
    enum class Is { another, answered, stranger };
    const Is is = borrowed_.look_at(fd, Is::another, [&](int same) {
      const TcpAddress now = other_end(same);
      if (now.port == 0 || now.port != it.from.port || now.host != it.from.host) return Is::another;
      if (has_shown_key(same)) return Is::answered;
      shutdown(same, SHUT_RDWR);  // ZeroMQ's thread hears of it, and closes it
      return Is::stranger;
    });
    if (is == Is::answered) answered(door, it);
    return is == Is::stranger;
  }
  void close_door(Door& door) {
    const std::lock_guard lock(mutex_);
    door.is_closed = true;
    refuse_new_connections(door.listening_fd);
    for (const auto& [fd, connection] : door.connections) end_if_stranger(door, fd);
  }
  void refuse(const TcpAddress& from, Strangers::Kind kind) {
    const bool is_known = !from.host.empty();  // else it had gone before it could be asked
    if (is_known) strangers_.note(from, kind);
    if (kind == Strangers::Kind::silent) return;
    refusals_.print(
        from.host,
        fmt::format("{}: a connection from {} does not have the key of this job, and was refused",
                    place_, is_known ? from.text() : "an address that is gone"));
  }

  CurveKeys keys_;
  size_t most_waiting_;
  zmq::socket_t questions_, orders_, ordered_;
  std::string place_;
  mutable std::mutex mutex_;  // guards what follows
  Door inbox_, control_;
  BorrowedDescriptor borrowed_;
  std::map<std::string, std::map<uint64_t, Waiting>> waiting_;  // by host, and in their order
  size_t waiting_count_ = 0;
  uint64_t numbers_ = 0;
  Strangers strangers_;
  OncePerHost refusals_, floods_, key_holders_;
  std::thread thread_;
};

}  // namespace yotta
