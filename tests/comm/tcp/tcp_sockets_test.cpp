#include "yotta/comm/tcp/tcp_sockets.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// The last event of this kind or of those that end an attempt; 0: none within two seconds.
int outcome(SocketEvents& events) {
  for (const Deadline deadline(2); deadline.left() > 0;) {
    const auto event = events.next(0.1);
    if (!event) continue;
    if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED || event->kind == ZMQ_EVENT_CLOSED ||
        event->kind == ZMQ_EVENT_DISCONNECTED)
      return event->kind;
  }
  return 0;
}
std::optional<std::string> receive(TcpSockets& sockets, double seconds) {
  zmq::pollitem_t item{sockets.inbox().handle(), 0, ZMQ_POLLIN, 0};
  zmq::message_t id, message;
  if (!wait_for({&item, 1}, seconds)) return {};
  static_cast<void>(sockets.inbox().recv(id));
  static_cast<void>(sockets.inbox().recv(message));
  return message.to_string();
}

}  // namespace

TEST_CASE("the same key: the handshake succeeds, and a message arrives, with where it is from") {
  const std::string key = make_job_key();
  TcpSockets here(key, true, 0, -1, "here", Where::current()),
      there(key, true, 0, -1, "there", Where::current());
  const auto line = there.connect("127.0.0.1", here.inbox_port(), here.control_port());
  CHECK(outcome(line->data_events) == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  CHECK(outcome(line->control_events) == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  line->data.send(zmq::buffer(std::string("hello")), zmq::send_flags::none);
  CHECK(receive(here, 2) == "hello");
  CHECK(here.guard().refused().empty());
}

TEST_CASE("another key, or none: no handshake, nothing arrives, and it is said from where") {
  const std::string said = stderr_of([] {
    TcpSockets here(make_job_key(), true, 0, -1, "rank 0", Where::current()),
        other(make_job_key(), true, 0, -1, "other", Where::current());
    const auto line = other.connect("127.0.0.1", here.inbox_port(), here.control_port());
    CHECK(outcome(line->data_events) == ZMQ_EVENT_DISCONNECTED);
    line->data.send(zmq::buffer(std::string("hello")), zmq::send_flags::dontwait);
    zmq::context_t context;
    zmq::socket_t plain(context, zmq::socket_type::dealer);  // ZeroMQ without a key
    plain.set(zmq::sockopt::linger, 0);
    plain.connect(endpoint("127.0.0.1", here.inbox_port()));
    plain.send(zmq::buffer(std::string("hello")), zmq::send_flags::dontwait);
    CHECK_FALSE(receive(here, 0.2).has_value());
    // It tries again and again: on a busy machine some connections are gone before they are asked.
    for (int tries = 0; tries < 100 && here.guard().refused().empty(); ++tries)
      CHECK_FALSE(receive(here, 0.1).has_value());
    REQUIRE_FALSE(here.guard().refused().empty());
    CHECK(here.guard().refused()[0].starts_with("127.0.0.1:"));
    CHECK(here.guard().refused().size() <= 8);  // however often it tries
  });
  CHECK(contains(said, "rank 0: a connection from 127.0.0.1:"));
  CHECK(said.find("from 127.0.0.1:") == said.rfind("from 127.0.0.1:"));  // once per host
}

TEST_CASE(
    "a process that knows only the public key cannot join: the guard admits the job's own alone") {
  const std::string key = make_job_key();
  TcpSockets here(key, true, 0, -1, "rank 0", Where::current());
  const CurveKeys job(key), other(make_job_key());
  zmq::context_t context;
  zmq::socket_t guest(context, zmq::socket_type::dealer);
  guest.set(zmq::sockopt::linger, 0);
  guest.set(zmq::sockopt::curve_serverkey, job.open);
  guest.set(zmq::sockopt::curve_publickey, other.open);
  guest.set(zmq::sockopt::curve_secretkey, other.secret);
  SocketEvents events(context, guest, "guest");
  const std::string said = stderr_of([&] {
    guest.connect(endpoint("127.0.0.1", here.inbox_port()));
    guest.send(zmq::buffer(std::string("hello")), zmq::send_flags::dontwait);
    CHECK_FALSE(receive(here, 0.3).has_value());
  });
  bool auth_failed = false;
  while (const auto event = events.next())
    auth_failed = auth_failed || event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  CHECK(auth_failed);
}

TEST_CASE("a message that is too long for a part ends its connection, and is not read") {
  const std::string key = make_job_key();
  TcpSockets here(key, true, 0, -1, "here", Where::current()),
      there(key, true, 0, -1, "there", Where::current());
  const auto line = there.connect("127.0.0.1", here.inbox_port(), here.control_port());
  REQUIRE(outcome(line->data_events) == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  const std::string most(sizeof(TcpPart) + tcp_limits::part_bytes, 'x');
  line->data.send(zmq::buffer(most), zmq::send_flags::none);
  CHECK(receive(here, 2) == most);
  line->data.send(zmq::buffer(most + most), zmq::send_flags::none);
  CHECK_FALSE(receive(here, 0.3).has_value());
  CHECK(outcome(line->data_events) == ZMQ_EVENT_DISCONNECTED);
}

TEST_CASE("the settings of sockets: limits, what must not be dropped, silent hosts") {
  const std::string key = make_job_key();
  TcpSockets here(key, true, 0, -1, "here", Where::current());
  CHECK(here.inbox().get(zmq::sockopt::maxmsgsize) == tcp_limits::message_bytes);
  CHECK(here.inbox().get(zmq::sockopt::handshake_ivl) == 10'000);
  const auto line = here.connect("127.0.0.1", here.inbox_port(), here.control_port());
  CHECK(line->data.get(zmq::sockopt::tcp_keepalive) == 1);
  CHECK(line->data.get(zmq::sockopt::tcp_keepalive_idle) +
            line->data.get(zmq::sockopt::tcp_keepalive_intvl) *
                line->data.get(zmq::sockopt::tcp_keepalive_cnt) ==
        30);
  CHECK(line->data.get(zmq::sockopt::heartbeat_ivl) == 0);  // a stopped rank loses nothing
  CHECK(line->control.get(zmq::sockopt::heartbeat_ivl) == 1000);
  CHECK(line->data.get(zmq::sockopt::reconnect_ivl) == -1);
}

TEST_CASE("addresses in numbers, and keys compared") {
  CHECK(plain_address("::ffff:10.0.0.1") == "10.0.0.1");
  CHECK(plain_address("10.0.0.1") == "10.0.0.1");
  CHECK(endpoint("::1", 5) == "tcp://[::1]:5");
  CHECK(endpoint("10.0.0.1", 5) == "tcp://10.0.0.1:5");
  std::string why;
  CHECK(find_addresses("127.0.0.1", why) == std::vector<std::string>{"127.0.0.1"});
  CHECK(find_addresses("no.such.host.invalid", why).empty());
  CHECK_FALSE(why.empty());
  const uint8_t some[] = {1, 2, 3}, others[] = {1, 2, 4};
  CHECK(are_equal(some, some, 3));
  CHECK_FALSE(are_equal(some, others, 3));
}
