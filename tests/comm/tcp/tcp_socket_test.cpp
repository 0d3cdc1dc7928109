#include "yotta/comm/tcp/tcp_socket.hpp"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <fstream>
#include <thread>

#include "support/message_of.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

struct Pair {
  Socket listener = listen_at(0), one, two;
  Pair() {
    std::string why;
    one = connect_to({"127.0.0.1", own_end(listener).port}, Deadline(5), why);
    two = accept_from(listener, Deadline(5));
    REQUIRE(one.is_open());
    REQUIRE(two.is_open());
  }
};

}  // namespace

TEST_CASE("two ends of a connection know each other, in the same words") {
  const Pair pair;
  CHECK(own_end(pair.one).text() == other_end(pair.two).text());
  CHECK(own_end(pair.two).text() == other_end(pair.one).text());
  CHECK(own_end(pair.one).host == "127.0.0.1");
  CHECK(own_end(pair.two).port == own_end(pair.listener).port);
}

TEST_CASE("by IPv6 too, where there is any") {
  std::ifstream file("/proc/net/if_inet6");
  const std::string own{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!contains(own, std::string(31, '0') + '1')) YOTTA_NOT_RUN("this machine has no ::1");
  const Socket listener = listen_at(0);
  std::string why;
  const Socket one = connect_to({"::1", own_end(listener).port}, Deadline(5), why);
  CAPTURE(why);
  REQUIRE(one.is_open());
  CHECK(other_end(one).host == "::1");
}

TEST_CASE(
    "without a free descriptor: said by name, and who waits to be accepted is not asked for on and "
    "on") {
  const Socket listener = listen_at(0);
  const TcpAddress address{"127.0.0.1", own_end(listener).port};
  std::string why, no_listener;
  const Socket guest = connect_to(address, Deadline(5), why);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  CHECK_FALSE(connect_to(address, Deadline(5), why).is_open());
  no_listener = message_of([] { listen_at(0); });
  int calls = 0;
  for (const Deadline deadline(0.1); deadline.left() > 0; ++calls)
    CHECK_FALSE(accept_from(listener, Deadline(0)).is_open());
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(why == "Too many open files");
  CHECK(contains(no_listener, "cannot listen at port 0: Too many open files"));
  CHECK(calls <= 11);
  CHECK(accept_from(listener, Deadline(5)).is_open());
}

TEST_CASE("a port that is taken, and one where nobody listens") {
  const Socket first = listen_at(0);
  const int port = own_end(first).port;
  const std::string taken = message_of([&] { const Socket second = listen_at(port); });
  CHECK(contains(taken, fmt::format("cannot listen at port {}: Address already in use", port)));
  int free_port = 0;
  {
    const Socket closed = listen_at(0);
    free_port = own_end(closed).port;
  }
  std::string why;
  CHECK_FALSE(connect_to({"127.0.0.1", free_port}, Deadline(5), why).is_open());
  CHECK(why == "Connection refused");
  CHECK_FALSE(connect_to({"no.such.host.invalid", 80}, Deadline(5), why).is_open());
  CHECK(why != "Connection refused");
}

TEST_CASE("nobody comes, nothing comes: not longer than the deadline") {
  const Pair pair;
  CHECK_FALSE(accept_from(pair.listener, Deadline(0.01)).is_open());
  CHECK_FALSE(read_text(pair.one, Deadline(0.01)).has_value());
  const std::string huge(1 << 24, 'x');  // more than the kernel keeps for who does not read
  CHECK_FALSE(write_all(pair.one, huge, Deadline(0.01)));
}

TEST_CASE("texts of all lengths") {
  const Pair pair;
  for (const size_t length : {0, 1, 100, 1 << 22}) {
    const std::string text(length, 'x');
    std::thread writer([&] { CHECK(write_text(pair.one, text, Deadline(20))); });
    CHECK(read_text(pair.two, Deadline(20)) == text);
    writer.join();
  }
}

TEST_CASE("what is no text of ours: another program's words, an impossible length, a closed end") {
  {
    const Pair pair;
    CHECK(write_all(pair.one, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", Deadline(5)));
    CHECK_FALSE(read_text(pair.two, Deadline(5)).has_value());
  }
  {
    const Pair pair;
    const TextHead head{.length = uint64_t{1} << 60};
    CHECK(write_all(pair.one, {reinterpret_cast<const char*>(&head), sizeof head}, Deadline(5)));
    CHECK_FALSE(read_text(pair.two, Deadline(5)).has_value());
  }
  Pair pair;
  pair.one = Socket();
  CHECK_FALSE(read_text(pair.two, Deadline(5)).has_value());
}
