// The sockets of a job over TCP: ZeroMQ's, with the job's key.
//
//     inbox     ROUTER that listens: all that the others send to this process
//     data      a DEALER to each other rank's inbox
//     control   a ROUTER that listens, and a DEALER to each other rank's: heartbeats, and nothing
//               else
//
// A connection of `data` that breaks is lost, with what was under way on it, so it is never made
// again. Nothing is asked of a rank there: one that is stopped for an hour and then goes on has
// lost nothing. On `control` ZeroMQ's own thread asks every second whether the other process
// answers. If it has not for nine, the connection is closed and made again once it does: so a
// stopped rank is noticed, and so is its return.
//
// The key (tcp_launch.hpp) is a secret key of CURVE, ZeroMQ's encryption; all ranks use the same
// pair of keys. What does not know the key cannot finish the handshake, as either side: it cannot
// join, send or read. TcpGuard, a thread, answers the question that ZeroMQ asks for each handshake
// (ZAP): is this the key of the job? It also notes which connections were refused, and says so.
//
// The limits: a ZeroMQ message has at most 256 KiB (ZMQ_MAXMSGSIZE), a handshake takes at most ten
// seconds (ZMQ_HANDSHAKE_IVL), and a few MiB at most wait on each side of a connection.
// A context has threads, so it is made in the process that uses it, after any fork.
// Cost: four connections for each pair of ranks; encryption, some ns per 10 bytes on each side.
// References: ZeroMQ RFCs 23 (ZMTP 3.0), 26 (CurveZMQ) and 27 (ZAP); zmq_setsockopt(3),
// zmq_socket_monitor(3).
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/tcp/tcp_frames.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"

namespace yotta {

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}
  double left() const {
    return std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count();
  }

 private:
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};
inline std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int>(std::clamp(seconds, 0.0, 1e5) * 1000));
}

// --- addresses ---

// The addresses of a host in numbers; empty, with the reason, if it has none.
inline std::vector<std::string> find_addresses(const std::string& host, std::string& why) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  std::vector<std::string> addresses;
  if (code != 0) why = gai_strerror(code);
  for (const addrinfo* each = found; code == 0 && each != nullptr; each = each->ai_next) {
    char numbers[NI_MAXHOST] = "";
    if (getnameinfo(each->ai_addr, each->ai_addrlen, numbers, sizeof numbers, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      addresses.emplace_back(numbers);
  }
  if (found != nullptr) freeaddrinfo(found);
  return addresses;
}
inline std::string endpoint(const std::string& numbers, int port) {
  const bool v6 = numbers.find(':') != numbers.npos;
  return v6 ? fmt::format("tcp://[{}]:{}", numbers, port)
            : fmt::format("tcp://{}:{}", numbers, port);
}
// "::ffff:10.0.0.1" is IPv4's 10.0.0.1.
inline std::string plain_address(std::string numbers) {
  constexpr std::string_view v4_in_v6 = "::ffff:";
  return numbers.starts_with(v4_in_v6) ? numbers.substr(v4_in_v6.size()) : numbers;
}
inline bool is_loopback(const std::string& numbers) {
  return numbers.starts_with("127.") || numbers == "::1";
}
// Where the other end of a connection is, unless it is gone already (as one is that begins with
// words that are not ZeroMQ's).
inline TcpAddress other_end(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  char host[NI_MAXHOST] = "an address that is gone", port[NI_MAXSERV] = "0";
  if (getpeername(fd, address, &length) == 0)
    getnameinfo(address, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return {plain_address(host), std::atoi(port)};
}

// --- ZeroMQ's calls, which a signal may interrupt ---

// Waits until one of them is ready. False: none is, or a signal has come.
inline bool wait_for(std::span<zmq::pollitem_t> items, double seconds) {
  const int ready = zmq_poll(items.data(), static_cast<int>(items.size()),
                             static_cast<long>(milliseconds_of(seconds).count()));
  return ready > 0;
}
// Never block. False: not now.
inline bool try_receive(zmq::socket_t& socket, zmq::message_t& message) {
  return zmq_msg_recv(message.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0;
}
inline bool try_send(zmq::socket_t& socket, zmq::message_t& message) {
  return zmq_msg_send(message.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0;
}
// The host that a message has come from.
inline std::string host_of(zmq::message_t& message) {
  const char* const host = zmq_msg_gets(message.handle(), "Peer-Address");
  return host == nullptr ? "an unknown address" : plain_address(host);
}

// --- the key ---

struct CurveKeys {
  std::string secret, open;  // 40 characters each, as ZeroMQ takes them
  std::array<uint8_t, 32> open_bytes = {};

  // Of the key's 64 hexadecimal digits.
  explicit CurveKeys(const std::string& key) {
    std::array<uint8_t, 32> bytes;
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(std::stoi(key.substr(2 * i, 2), nullptr, 16));
    char text[41] = "", other[41] = "";
    zmq_z85_encode(text, bytes.data(), bytes.size());
    if (zmq_curve_public(other, text) != 0)
      fail(Where::current(), "this ZeroMQ was built without CURVE, its encryption");
    secret = text;
    open = other;
    zmq_z85_decode(open_bytes.data(), other);
  }
};

// In a time that does not depend on what is equal.
inline bool are_equal(const uint8_t* some, const uint8_t* others, size_t count) {
  unsigned different = 0;
  for (size_t i = 0; i < count; ++i) different |= static_cast<unsigned>(some[i] ^ others[i]);
  return different == 0;
}

// --- events ---

// What ZeroMQ's own thread has noticed on a socket's connections, in order.
class SocketEvents {
 public:
  struct Event {
    uint16_t kind = 0;  // ZMQ_EVENT_...
    uint32_t value = 0;
  };
  // `watched` must outlive it.
  SocketEvents(zmq::context_t& context, zmq::socket_t& watched, const std::string& name)
      : watched_(watched.handle()), socket_(context, zmq::socket_type::pair) {
    const std::string place = "inproc://" + name;
    socket_.set(zmq::sockopt::rcvhwm, 0);  // ZeroMQ's thread would wait for one that does not read
    if (zmq_socket_monitor(watched.handle(), place.c_str(), ZMQ_EVENT_ALL) != 0)
      fail(Where::current(), "zmq_socket_monitor: {}", zmq_strerror(zmq_errno()));
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(place);
  }
  SocketEvents(const SocketEvents&) = delete;
  SocketEvents& operator=(const SocketEvents&) = delete;
  ~SocketEvents() { zmq_socket_monitor(watched_, nullptr, 0); }
  zmq::socket_t& socket() { return socket_; }
  // The next one; empty: none by the deadline.
  std::optional<Event> next(double seconds = 0) {
    zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
    if (seconds > 0 && !wait_for({&item, 1}, seconds)) return {};
    zmq::message_t words, place;
    if (!try_receive(socket_, words)) return {};
    static_cast<void>(try_receive(socket_, place));
    Event event;
    if (words.size() < 6) return {};
    std::memcpy(&event.kind, words.data(), 2);
    std::memcpy(&event.value, words.data<char>() + 2, 4);
    return event;
  }

 private:
  void* watched_;
  zmq::socket_t socket_;
};

// --- the guard ---

class TcpGuard {
 public:
  TcpGuard(zmq::context_t& context, const CurveKeys& keys)
      : keys_(keys),
        questions_(context, zmq::socket_type::rep),
        stop_(context, zmq::socket_type::pair),
        stopped_(context, zmq::socket_type::pair) {
    for (zmq::socket_t* each : {&questions_, &stop_, &stopped_}) each->set(zmq::sockopt::linger, 0);
    questions_.bind("inproc://zeromq.zap.01");
    stopped_.bind("inproc://guard");
    stop_.connect("inproc://guard");
  }
  TcpGuard(const TcpGuard&) = delete;
  TcpGuard& operator=(const TcpGuard&) = delete;
  ~TcpGuard() {
    if (!thread_.joinable()) return;
    stop_.send(zmq::message_t(), zmq::send_flags::dontwait);
    thread_.join();
  }
  // From here on it answers, and watches what connects to this socket. `place` is for what it says.
  void start(zmq::context_t& context, zmq::socket_t& listener, const std::string& place) {
    place_ = place;
    events_.emplace(context, listener, "came");
    sigset_t all, before;  // signals are for the rank's own thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { answer(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  // "127.0.0.1:40123": where refused connections came from, the first few.
  std::vector<std::string> refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  static constexpr size_t most_named = 8;

  void answer() {
    for (;;) {
      zmq::pollitem_t items[] = {{questions_.handle(), 0, ZMQ_POLLIN, 0},
                                 {events_->socket().handle(), 0, ZMQ_POLLIN, 0},
                                 {stopped_.handle(), 0, ZMQ_POLLIN, 0}};
      if (!wait_for(items, 3600)) continue;
      if (items[2].revents != 0) return;
      if (items[1].revents != 0)
        while (const auto event = events_->next()) note(*event);
      if (items[0].revents != 0) answer_one();
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
    const std::string from = question.size() > 3 ? plain_address(question[3].to_string()) : "";
    if (allowed) let_in(from);
    const std::string id = question.size() > 1 ? question[1].to_string() : "";
    const std::array<std::string, 6> reply = {
        "1.0", id, allowed ? "200" : "400", allowed ? "OK" : "not the key of this job", "", ""};
    for (size_t i = 0; i < reply.size(); ++i)
      questions_.send(zmq::buffer(reply[i]),
                      i + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  // One connection from there has shown the key.
  void let_in(const std::string& from) {
    while (const auto event = events_->next()) note(*event);
    for (auto each = pending_.begin(); each != pending_.end(); ++each)
      if (each->second.host == from) return static_cast<void>(pending_.erase(each));
  }
  void note(const SocketEvents::Event& event) {
    const int fd = static_cast<int>(event.value);
    if (event.kind == ZMQ_EVENT_ACCEPTED) pending_[fd] = other_end(fd);
    // A connection that ends early, or says nothing: a health check, or a rank that tried too soon.
    if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) was_silent_ = true;
    if (event.kind != ZMQ_EVENT_DISCONNECTED) return;
    const auto found = pending_.extract(fd);
    if (!found.empty()) refuse(found.mapped(), std::exchange(was_silent_, false));
  }
  void refuse(const TcpAddress& from, bool was_silent) {
    const std::lock_guard lock(mutex_);
    if (refused_.size() >= most_named) return;
    const bool is_known = from.port > 0;  // else it had gone before it could be asked
    if (is_known) refused_.push_back(from.text());
    if (was_silent || std::count(named_.begin(), named_.end(), from.host) > 0) return;
    named_.push_back(from.host);
    fmt::print(stderr,
               "{}: a connection from {} does not have the key of this job, and was refused\n",
               place_, is_known ? from.text() : from.host);
  }

  CurveKeys keys_;
  zmq::socket_t questions_, stop_, stopped_;
  std::optional<SocketEvents> events_;
  std::string place_;
  std::map<int, TcpAddress> pending_;  // connections that have not shown the key yet
  bool was_silent_ = false;
  mutable std::mutex mutex_;  // guards refused_
  std::vector<std::string> refused_;
  std::vector<std::string> named_;  // hosts
  std::thread thread_;
};

// --- the sockets of a process ---

// To another rank.
class TcpLine {
 public:
  TcpLine(zmq::context_t& context, zmq::socket_t to_inbox, zmq::socket_t to_control, int number)
      : data(std::move(to_inbox)),
        control(std::move(to_control)),
        data_events(context, data, fmt::format("data{}", number)),
        control_events(context, control, fmt::format("control{}", number)) {}

  zmq::socket_t data, control;
  SocketEvents data_events, control_events;
};

class TcpSockets {
 public:
  // Listens: at the address of rank 0 if `port` is not 0, else at a free port. `fd`: a socket that
  // listens there already, or -1.
  TcpSockets(const std::string& key, bool one_machine, int port, int fd, const std::string& place,
             Where where)
      : keys_(key), guard_(context_, keys_) {
    inbox_ = zmq::socket_t(context_, zmq::socket_type::router);
    control_ = zmq::socket_t(context_, zmq::socket_type::router);
    for (zmq::socket_t* each : {&inbox_, &control_}) {
      set_up(*each);
      each->set(zmq::sockopt::curve_server, true);
      each->set(zmq::sockopt::curve_secretkey, keys_.secret);
      each->set(zmq::sockopt::router_mandatory, true);
    }
    guard_.start(context_, inbox_, place);
    inbox_port_ = listen(inbox_, one_machine, port, fd, where);
    control_port_ = listen(control_, one_machine, 0, -1, where);
  }
  zmq::socket_t& inbox() { return inbox_; }
  const TcpGuard& guard() const { return guard_; }
  int inbox_port() const { return inbox_port_; }
  int control_port() const { return control_port_; }

  // A connection to this host's ports, begun; its events tell what becomes of it. A port of 0: not
  // known yet.
  std::unique_ptr<TcpLine> connect(const std::string& numbers, int inbox_port, int control_port) {
    zmq::socket_t data = client(), control = client();
    data.set(zmq::sockopt::reconnect_ivl, -1);
    // The kernel asks a host that is silent: after 30 s without an answer it is lost. One that
    // computes, or is stopped, answers.
    data.set(zmq::sockopt::tcp_keepalive, 1);
    data.set(zmq::sockopt::tcp_keepalive_idle, 5);
    data.set(zmq::sockopt::tcp_keepalive_intvl, 5);
    data.set(zmq::sockopt::tcp_keepalive_cnt, 5);
    control.set(zmq::sockopt::heartbeat_ivl, 1000);
    control.set(zmq::sockopt::heartbeat_timeout, 9000);
    auto line = std::make_unique<TcpLine>(context_, std::move(data), std::move(control), ++lines_);
    line->data.connect(endpoint(numbers, inbox_port));
    if (control_port != 0) connect_control(*line, numbers, control_port);
    return line;
  }
  static void connect_control(TcpLine& line, const std::string& numbers, int port) {
    line.control.connect(endpoint(numbers, port));
  }

 private:
  static void set_up(zmq::socket_t& socket) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::ipv6, true);
    socket.set(zmq::sockopt::maxmsgsize, tcp_limits::message_bytes);
    socket.set(zmq::sockopt::handshake_ivl, 10'000);
    socket.set(zmq::sockopt::sndhwm, 64);
    socket.set(zmq::sockopt::rcvhwm, 64);
    socket.set(zmq::sockopt::backlog, 1024);
  }
  zmq::socket_t client() {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    set_up(socket);
    socket.set(zmq::sockopt::curve_serverkey, keys_.open);
    socket.set(zmq::sockopt::curve_publickey, keys_.open);
    socket.set(zmq::sockopt::curve_secretkey, keys_.secret);
    return socket;
  }
  static int listen(zmq::socket_t& socket, bool one_machine, int port, int fd, Where where) {
    const std::string place = fmt::format("tcp://{}:{}", one_machine ? "127.0.0.1" : "*",
                                          port == 0 ? "*" : std::to_string(port));
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
    socket.set(zmq::sockopt::use_fd, fd);
    try {
      socket.bind(place);
    } catch (const zmq::error_t& error) {
      fail_as<CommError>(where, "cannot listen at port {}: {}", port, error.what());
    }
    if (fd >= 0) return port;
    const std::string last = socket.get(zmq::sockopt::last_endpoint);
    return std::atoi(last.c_str() + last.rfind(':') + 1);
  }

  CurveKeys keys_;
  zmq::context_t context_;  // ends after all of its sockets
  zmq::socket_t inbox_, control_;
  TcpGuard guard_;
  int inbox_port_ = 0, control_port_ = 0, lines_ = 0;
};

}  // namespace yotta
