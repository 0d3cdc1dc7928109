// The sockets of a job over TCP: ZeroMQ's, with the job's key.
//
//     inbox     ROUTER that listens: all that the others send to this process
//     data      a DEALER to each other rank's inbox
//     control   a ROUTER that listens, and a DEALER to each other rank's: heartbeats, and nothing
//               else
//
// A connection of `data` that breaks is lost, with what was under way on it, so it is never made
// again. No heartbeats travel there: a rank that is stopped for an hour and then goes on has lost
// nothing. On `control` ZeroMQ's own thread asks every second whether the other process answers. If
// it has not for nine, the connection is closed and made again once it does: so a stopped rank is
// noticed, and so is its return.
//
// All connections are encrypted with the job's key, and a guard keeps others out (tcp_guard.hpp).
// Each process gives its connections a random name. The ranks tell each other these names when they
// meet, so an inbox knows which rank has sent a message.
// The limits: a ZeroMQ message has at most 256 KiB (ZMQ_MAXMSGSIZE), a handshake takes at most ten
// seconds (ZMQ_HANDSHAKE_IVL), and a few MiB at most wait on each side of a connection.
// A context has threads, so it is made in the process that uses it, after any fork.
// Cost: four connections for each pair of ranks; encryption, some ns per 10 bytes on each side.
// References: zmq_setsockopt(3), zmq_socket(3).
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/tcp/tcp_frames.hpp"
#include "yotta/comm/tcp/tcp_guard.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"

namespace yotta {

// A message, and the connection that it has come on.
struct TcpMessage {
  std::string name;  // of the connection
  zmq::message_t words;
  std::string fault = {};  // why no rank sends it; the rest of it is dropped

  std::string host() { return host_of(words); }
};
// The next one of a ROUTER; empty: none has come. Never blocks.
inline std::optional<TcpMessage> take_message(zmq::socket_t& router) {
  zmq::message_t name, rest;
  TcpMessage message;
  if (!try_receive(router, name) || !try_receive(router, message.words)) return {};
  message.name = name.to_string();
  for (bool more = message.words.more(); more && try_receive(router, rest); more = rest.more())
    message.fault = "a message of several frames";
  return message;
}

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
  // listens there already, or -1. `ranks`: of the job.
  TcpSockets(const std::string& key, bool one_machine, int port, int fd, const std::string& place,
             Where where, int ranks = 2)
      : keys_(key),
        name_(make_job_key().substr(0, name_length)),
        descriptors_(raise_descriptor_limit()),
        context_(context_for(ranks)),
        guard_(context_, keys_, most_waiting(descriptors_, ranks)) {
    for (int other = 1; other < ranks; ++other) spare_.push_back(make_line());
    inbox_ = zmq::socket_t(context_, zmq::socket_type::router);
    control_ = zmq::socket_t(context_, zmq::socket_type::router);
    for (zmq::socket_t* each : {&inbox_, &control_}) {
      set_up(*each);
      each->set(zmq::sockopt::curve_server, true);
      each->set(zmq::sockopt::curve_secretkey, keys_.secret);
      each->set(zmq::sockopt::router_mandatory, true);
      each->set(zmq::sockopt::router_handover, true);  // a line that is made again keeps its name
    }
    control_.set(zmq::sockopt::maxmsgsize, int64_t{4096});  // of the handshake: there is no other
    control_.set(zmq::sockopt::rcvhwm, 1);
    guard_.start(context_, inbox_, control_, place);
    // Strangers know the inbox's port, perhaps: it is the last, since ZeroMQ needs a descriptor for
    // a moment to listen, and ends the process if there is none.
    control_port_ = listen(control_, one_machine, 0, -1, where);
    inbox_port_ = listen(inbox_, one_machine, port, fd, where);
  }
  zmq::socket_t& inbox() { return inbox_; }
  TcpGuard& guard() { return guard_; }
  const TcpGuard& guard() const { return guard_; }
  // What the inboxes of others call this process's messages: no other process can guess it.
  const std::string& name() const { return name_; }
  // That this process may have.
  int64_t descriptors() const { return descriptors_; }
  int inbox_port() const { return inbox_port_; }
  int control_port() const { return control_port_; }

  // A connection to this host's ports, begun; its events tell what becomes of it. A port of 0: not
  // known yet.
  std::unique_ptr<TcpLine> connect(const std::string& numbers, int inbox_port, int control_port) {
    std::unique_ptr<TcpLine> line = spare_.empty() ? make_line() : std::move(spare_.back());
    if (!spare_.empty()) spare_.pop_back();
    line->data.connect(endpoint(numbers, inbox_port));
    if (control_port != 0) connect_control(*line, numbers, control_port);
    return line;
  }
  static void connect_control(TcpLine& line, const std::string& numbers, int port) {
    line.control.connect(endpoint(numbers, port));
  }

 private:
  static constexpr size_t name_length = 15;  // std::string keeps it without a heap
  // A quarter of the descriptors, and no more than the ranks of the job make at once.
  static size_t most_waiting(int64_t descriptors, int ranks) {
    return static_cast<size_t>(std::clamp<int64_t>(descriptors / 4, 8, 1024 + 4 * int64_t{ranks}));
  }
  static zmq::context_t context_for(int ranks) {
    zmq::context_t context;
    context.set(zmq::ctxopt::max_sockets, std::min(65'000, 1024 + 8 * ranks));
    return context;
  }
  std::unique_ptr<TcpLine> make_line() {
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
    return std::make_unique<TcpLine>(context_, std::move(data), std::move(control), ++lines_);
  }
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
    socket.set(zmq::sockopt::routing_id, name_);
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
  std::string name_;
  int64_t descriptors_;
  zmq::context_t context_;  // ends after all of its sockets
  zmq::socket_t inbox_, control_;
  std::vector<std::unique_ptr<TcpLine>> spare_;  // made before strangers can use up descriptors
  TcpGuard guard_;
  int inbox_port_ = 0, control_port_ = 0, lines_ = 0;
};

}  // namespace yotta
