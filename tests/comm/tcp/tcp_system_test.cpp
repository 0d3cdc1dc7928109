#include "yotta/comm/tcp/tcp_system.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "comm/strangers.hpp"

using namespace yotta;
using namespace yotta_test;

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

TEST_CASE("where a connection's ends are; a descriptor that is none has no end") {
  const Stranger server;
  const int client = connect_at_last(server.port());
  const TcpAddress there = other_end(client);
  CHECK(there.host == "127.0.0.1");
  CHECK(there.port == server.port());
  CHECK(port_of(client) > 0);
  CHECK(port_of(client) != server.port());
  close(client);
  CHECK(other_end(client).port == 0);
  CHECK(port_of(-1) == 0);
}

TEST_CASE("a borrowed descriptor is the same file, even when the process may open no more") {
  const Stranger server;
  const int client = connect_at_last(server.port());
  BorrowedDescriptor borrowed;
  const auto port_at_other_end = [](int same) { return other_end(same).port; };
  CHECK(borrowed.look_at(client, -1, port_at_other_end) == server.port());
  CHECK(borrowed.look_at(-1, -1, port_at_other_end) == -1);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(borrowed.look_at(nothing, -1, port_at_other_end) == 0);
  close(nothing);
  std::vector<int> all;
  const std::string seen = in_limited_process(64, [&] {
    while (all.empty() || all.back() >= 0) all.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return std::to_string(borrowed.look_at(client, -1, port_at_other_end));
  });
  CHECK(seen == std::to_string(server.port()));
  close(client);
}

TEST_CASE("the limit of descriptors is raised as far as this user may") {
  const std::string seen = in_limited_process(64, [] {
    const rlimit low{32, 64};
    setrlimit(RLIMIT_NOFILE, &low);
    const int64_t raised = raise_descriptor_limit();
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    return fmt::format("{} {}", raised, now.rlim_cur);
  });
  CHECK(seen == "64 64");
}

TEST_CASE("a socket that refuses new connections keeps those that stand") {
  const Stranger server;
  const int before = connect_at_last(server.port());
  REQUIRE(refuse_new_connections(server.fd()));
  CHECK_FALSE(can_connect(server.port()));
  const int accepted = accept(server.fd(), nullptr, nullptr);
  CHECK(send(before, "x", 1, MSG_NOSIGNAL) == 1);
  char byte = 0;
  CHECK(recv(accepted, &byte, 1, 0) == 1);
  CHECK(byte == 'x');
  close(accepted);
  close(before);
}
