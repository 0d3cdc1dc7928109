// Connections to a process of a job over TCP, as tests make them.
#pragma once

#include <doctest/doctest.h>

#include "support/longest_wait.hpp"
#include "yotta/comm/tcp/tcp_sockets.hpp"

namespace yotta_test {

// The next event of those that begin or end a connection; 0: none in time.
inline int outcome(yotta::SocketEvents& events) {
  for (const yotta::Deadline deadline(longest_wait); deadline.left() > 0;) {
    const auto event = events.next(0.1);
    if (!event) continue;
    if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED || event->kind == ZMQ_EVENT_CLOSED ||
        event->kind == ZMQ_EVENT_DISCONNECTED)
      return event->kind;
  }
  return 0;
}

// The next message of an inbox; empty: none in time.
inline std::optional<yotta::TcpMessage> receive(zmq::socket_t& inbox, double seconds) {
  zmq::pollitem_t item{inbox.handle(), 0, ZMQ_POLLIN, 0};
  if (!yotta::wait_for({&item, 1}, seconds)) return {};
  return yotta::take_message(inbox);
}

// Two processes with one key, and a connection from `there` to `here`.
struct ConnectedPair {
  std::string key = yotta::make_job_key();
  yotta::TcpSockets here{key, true, 0, -1, "here", yotta::Where::current()};
  yotta::TcpSockets there{key, true, 0, -1, "there", yotta::Where::current()};
  std::unique_ptr<yotta::TcpLine> line =
      there.connect("127.0.0.1", here.inbox_port(), here.control_port());

  ConnectedPair() {
    REQUIRE(outcome(line->data_events) == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    REQUIRE(outcome(line->control_events) == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  }
};

// A process that has the key of a job, and is no rank of it.
class KeyHolder {
 public:
  KeyHolder(const std::string& key, int port) {
    const yotta::CurveKeys keys(key);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::curve_serverkey, keys.open);
    socket_.set(zmq::sockopt::curve_publickey, keys.open);
    socket_.set(zmq::sockopt::curve_secretkey, keys.secret);
    socket_.connect(yotta::endpoint("127.0.0.1", port));
  }
  // Waits until something listens there, and has let it in.
  bool is_connected() {
    int kind = 0;
    for (int tries = 0; tries < 1000 && kind != ZMQ_EVENT_HANDSHAKE_SUCCEEDED; ++tries)
      kind = outcome(events_);
    return kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  }
  // One message of these frames.
  void send(const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i)
      socket_.send(zmq::buffer(frames[i]),
                   i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  zmq::socket_t& socket() { return socket_; }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
  yotta::SocketEvents events_{context_, socket_, "events"};
};

}  // namespace yotta_test
