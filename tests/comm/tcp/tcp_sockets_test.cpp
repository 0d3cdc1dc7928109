#include "yotta/comm/tcp/tcp_sockets.hpp"

#include <doctest/doctest.h>

#include "comm/tcp_lines.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("the same key: a message arrives, with its connection's name and where it is from") {
  ConnectedPair job;
  job.line->data.send(zmq::buffer(std::string("hello")), zmq::send_flags::none);
  auto message = receive(job.here.inbox(), longest_wait);
  REQUIRE(message.has_value());
  CHECK(message->words.to_string() == "hello");
  CHECK(message->name == job.there.name());
  CHECK(message->name != job.here.name());
  CHECK(message->host() == "127.0.0.1");
  CHECK(message->fault.empty());
  CHECK(job.here.guard().refused().empty());
}

TEST_CASE("a message of several frames is taken whole, and has a fault; the next one is well") {
  ConnectedPair job;
  KeyHolder other(job.key, job.here.inbox_port());
  other.send({"one", "two", "three"});
  other.send({"four"});
  const auto first = receive(job.here.inbox(), longest_wait),
             second = receive(job.here.inbox(), longest_wait);
  REQUIRE((first.has_value() && second.has_value()));
  CHECK(first->fault == "a message of several frames");
  CHECK(second->words.to_string_view() == "four");
  CHECK(second->fault.empty());
  CHECK(second->name == first->name);
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
    CHECK_FALSE(receive(here.inbox(), 0.1).has_value());
    // They try again and again: on a busy machine some connections are gone before they are asked,
    // and some before they have said anything.
    const auto is_refused = [&] {
      const std::vector<std::string> from = here.guard().refused();
      return !from.empty() && !contains(from[0], "silent");
    };
    for (int tries = 0; tries < 100 && !is_refused(); ++tries)
      CHECK_FALSE(receive(here.inbox(), 0.1).has_value());
    REQUIRE(is_refused());
    CHECK(here.guard().refused()[0].starts_with("127.0.0.1:"));
    CHECK(here.guard().refused().size() <= 2);  // however often it tries
  });
  CAPTURE(said);
  CHECK(contains(said, "rank 0: a connection from 127.0.0.1:"));
  CHECK(said.find("from 127.0.0.1:") == said.rfind("from 127.0.0.1:"));  // once per host
}

TEST_CASE("a message that is too long for a part ends its connection, and is not read") {
  ConnectedPair job;
  const std::string most(sizeof(TcpPart) + tcp_limits::part_bytes, 'x');
  job.line->data.send(zmq::buffer(most), zmq::send_flags::none);
  CHECK(receive(job.here.inbox(), longest_wait)->words.to_string() == most);
  job.line->data.send(zmq::buffer(most + most), zmq::send_flags::none);
  CHECK(outcome(job.line->data_events) == ZMQ_EVENT_DISCONNECTED);
  CHECK_FALSE(receive(job.here.inbox(), 0).has_value());
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
