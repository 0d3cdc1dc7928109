#include "yotta/comm/tcp/tcp_guard.hpp"

#include <doctest/doctest.h>

#include "comm/strangers.hpp"
#include "comm/tcp_lines.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int most_waiting = 8;

// Two sockets that listen with a key, and their guard.
class Guarded {
 public:
  const std::string key = make_job_key();

  Guarded() {
    for (zmq::socket_t* each : {&inbox, &control}) {
      each->set(zmq::sockopt::linger, 0);
      each->set(zmq::sockopt::curve_server, true);
      each->set(zmq::sockopt::curve_secretkey, CurveKeys(key).secret);
    }
    guard.start(context_, inbox, control, "rank 0");
    inbox_port = listen(inbox);
    control_port = listen(control);
  }

 private:
  static int listen(zmq::socket_t& socket) {
    socket.bind("tcp://127.0.0.1:*");
    const std::string place = socket.get(zmq::sockopt::last_endpoint);
    return std::atoi(place.c_str() + place.rfind(':') + 1);
  }
  zmq::context_t context_;

 public:
  zmq::socket_t inbox{context_, zmq::socket_type::router},
      control{context_, zmq::socket_type::router};
  TcpGuard guard{context_, CurveKeys(key), most_waiting};
  int inbox_port = 0, control_port = 0;
};

bool is_among(const std::vector<std::string>& texts, const std::string& words) {
  return std::any_of(texts.begin(), texts.end(), [&](auto& each) { return contains(each, words); });
}

}  // namespace

TEST_CASE("of connections that say nothing only so many stay, on both sockets together") {
  const std::string said = stderr_of([] {
    Guarded job;
    const SilentConnections one(job.inbox_port, 20);
    CHECK(comes([&] { return one.open() == most_waiting; }));
    CHECK_FALSE(one.is_open(0));
    CHECK(one.is_open(19));
    const SilentConnections other(job.control_port, 20);
    CHECK(comes([&] { return one.open() + other.open() == most_waiting; }));
    CHECK(comes([&] { return job.guard.describe_waiting() == "8 from 127.0.0.1"; }));
  });
  CHECK(said ==
        "rank 0: 9 connections have not shown the key of this job, 9 of them from 127.0.0.1; the "
        "oldest are closed\n");
}

TEST_CASE("the host that has most of them loses its oldest; what has shown the key stays") {
  const StderrText quiet;
  Guarded job;
  const SilentConnections first(job.inbox_port, 2, "127.0.0.2");
  KeyHolder rank(job.key, job.inbox_port);
  rank.send({"hello"});
  CHECK(receive(job.inbox, longest_wait).has_value());
  for (const int port : {job.inbox_port, job.control_port}) {
    const SilentConnections many(port, 30);
    CHECK(comes([&] { return many.open() == most_waiting - 2; }));
    CHECK(first.open() == 2);
    rank.send({"still here"});
    CHECK(receive(job.inbox, longest_wait).has_value());
    KeyHolder another(job.key, job.inbox_port);  // comes between them
    another.send({"hello"});
    CHECK(receive(job.inbox, longest_wait).has_value());
  }
  CHECK_FALSE(is_among(job.guard.refused(), "127.0.0.2"));
}

TEST_CASE("of many hosts with few connections each, the oldest connection ends") {
  const StderrText quiet;
  Guarded job;
  const SilentConnections first(job.inbox_port, 2, "127.0.0.9");
  std::vector<std::unique_ptr<SilentConnections>> others;
  const auto connect_from = [&](int host) {
    const std::string from = fmt::format("127.0.1.{}", host);
    others.push_back(std::make_unique<SilentConnections>(job.inbox_port, 1, from.c_str()));
  };
  for (int host = 1; host <= most_waiting - 2; ++host) connect_from(host);
  CHECK(comes([&] { return contains(job.guard.describe_waiting(), "127.0.1.6"); }));
  const SilentConnections pair(job.inbox_port, 2, "127.0.0.3");
  CHECK(comes([&] { return first.open() == 0; }));
  CHECK(pair.open() == 2);
  for (const auto& each : others) CHECK(each->open() == 1);
}

TEST_CASE("a closed inbox takes no connection, ends silent ones, and keeps the ranks") {
  const StderrText quiet;
  Guarded job;
  KeyHolder rank(job.key, job.inbox_port);
  rank.send({"hello"});
  CHECK(receive(job.inbox, longest_wait).has_value());
  const SilentConnections silent(job.inbox_port, 3), beside(job.control_port, 3);
  CHECK(comes([&] { return job.guard.describe_waiting() == "6 from 127.0.0.1"; }));
  job.guard.close_inbox();
  CHECK(comes([&] { return silent.open() == 0; }));
  CHECK(beside.open() == 3);
  CHECK(comes([&] { return !can_connect(job.inbox_port); }));
  CHECK(comes([&] { return can_connect(job.control_port); }));
  rank.send({"still here"});
  CHECK(receive(job.inbox, longest_wait).has_value());
}

TEST_CASE(
    "a host that speaks without the key is named, on either socket, also after many silent ones") {
  const std::string said = stderr_of([] {
    Guarded job;
    std::vector<std::unique_ptr<SilentConnections>> silent;
    for (int i = 0; i < 12; ++i) {
      const std::string host = fmt::format("127.0.1.{}", i + 1);
      silent.push_back(std::make_unique<SilentConnections>(job.inbox_port, 1, host.c_str()));
    }
    CHECK(comes([&] { return is_among(job.guard.refused(), "(silent)"); }));
    silent.clear();
    CHECK(comes([&] { return job.guard.describe_waiting().empty(); }));
    for (int i = 0; i < 2; ++i) {
      const std::string host = i == 0 ? "127.0.0.2" : "127.0.0.3";
      const SilentConnections talks(job.control_port, 3, host.c_str());
      CHECK(comes([&] { return contains(job.guard.describe_waiting(), "3 from " + host); }));
      talks.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      CHECK(comes([&] { return talks.open() == 0; }));
    }
    CHECK(comes([&] { return is_among(job.guard.refused(), "127.0.0.3:"); }));
    CHECK(comes([&] { return contains(job.guard.refused()[0], "(3 times)"); }));
    CHECK(job.guard.refused()[0].starts_with("127.0.0.2:"));
    CHECK(job.guard.refused()[1].starts_with("127.0.0.3:"));
  });
  CHECK(contains(said, "rank 0: a connection from 127.0.0.2:"));
  CHECK(contains(said, "rank 0: a connection from 127.0.0.3:"));
  CHECK_FALSE(contains(said, "a connection from 127.0.1."));
}

TEST_CASE("a connection that has shown the key and ends is no stranger") {
  const std::string said = stderr_of([] {
    Guarded job;
    for (int i = 0; i < 20; ++i)
      for (const int port : {job.inbox_port, job.control_port}) {
        KeyHolder rank(job.key, port);
        rank.send({"hello"});
        CHECK(receive(port == job.inbox_port ? job.inbox : job.control, longest_wait).has_value());
      }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(job.guard.refused().empty());
    CHECK(job.guard.describe_waiting().empty());
  });
  CHECK(said == "");
}

TEST_CASE(
    "a process that knows only the public key cannot join: the guard admits the job's own alone") {
  const std::string said = stderr_of([&] {
    Guarded job;
    const CurveKeys keys(job.key), other(make_job_key());
    zmq::context_t context;
    zmq::socket_t guest(context, zmq::socket_type::dealer);
    guest.set(zmq::sockopt::linger, 0);
    guest.set(zmq::sockopt::curve_serverkey, keys.open);
    guest.set(zmq::sockopt::curve_publickey, other.open);
    guest.set(zmq::sockopt::curve_secretkey, other.secret);
    SocketEvents events(context, guest, "guest");
    guest.connect(endpoint("127.0.0.1", job.inbox_port));
    guest.send(zmq::buffer(std::string("hello")), zmq::send_flags::dontwait);
    bool auth_failed = false;
    for (const Deadline deadline(longest_wait); !auth_failed && deadline.left() > 0;)
      if (const auto event = events.next(0.1))
        auth_failed = event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    CHECK(auth_failed);
    CHECK_FALSE(receive(job.inbox, 0.05).has_value());
    CHECK(is_among(job.guard.refused(), "127.0.0.1"));
  });
  CHECK(contains(said, "does not have the key of this job, and was refused"));
}

TEST_CASE("what is said of strangers: those that spoke first, with counts, and not too much") {
  Strangers strangers;
  for (int host = 0; host < 1000; ++host)
    strangers.note({fmt::format("10.0.{}.{}", host / 250, host % 250), 5}, Strangers::Kind::silent);
  for (int times = 0; times < 3; ++times)
    strangers.note({"10.1.0.1", 40000 + times}, Strangers::Kind::wrong);
  strangers.note({"10.1.0.2", 40000}, Strangers::Kind::wrong);
  const std::vector<std::string> texts = strangers.texts();
  CHECK(texts[0] == "10.1.0.1:40000 (3 times)");
  CHECK(texts[1] == "10.1.0.2:40000");
  CHECK(texts[2] == "10.0.0.0:5 (silent)");
  CHECK(texts.size() == 10);
  const std::string said = stderr_of([] {
    OncePerHost lines;
    for (int host = 0; host < 100; ++host)
      for (int times = 0; times < 2; ++times)
        lines.print(std::to_string(host), fmt::format("host {}.", host));
  });
  CHECK(contains(said, "host 0.\nhost 1.\n"));
  CHECK(contains(said, "host 8. (More such hosts are not printed.)\n"));
  CHECK_FALSE(contains(said, "host 9."));
}
