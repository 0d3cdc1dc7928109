#include "yotta/comm/tcp_socket.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "support/message_of.hpp"

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
  const Socket listener = listen_at(0);
  std::string why;
  const Socket one = connect_to({"::1", own_end(listener).port}, Deadline(5), why);
  CHECK((one.is_open() || !why.empty()));
  if (one.is_open()) CHECK(other_end(one).host == "::1");
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
