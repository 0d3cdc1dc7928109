// Processes that are threads find each other, or hear why not.
#include "yotta/comm/tcp/tcp_rendezvous.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

int free_port() { return own_end(listen_at(0)).port; }

// What each process hears, in the order of `environments`.
std::vector<std::string> meet(const std::vector<TcpEnvironment>& environments) {
  std::vector<std::string> heard(environments.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < environments.size(); ++i)
    threads.emplace_back([&, i] {
      heard[i] = message_of([&] {
        const TcpPeers peers = TcpRendezvous(environments[i]).connect();
        // Each process tells the others its rank, to check what is at the other end.
        const int size = static_cast<int>(peers.sockets.size());
        for (int other = 0; other < size; ++other)
          if (other != peers.rank)
            write_text(peers.sockets[static_cast<size_t>(other)], std::to_string(peers.rank),
                       Deadline(20));
        for (int other = 0; other < size; ++other) {
          const auto rank = static_cast<size_t>(other);
          CHECK(peers.sockets[rank].is_open() == (other != peers.rank));
          CHECK(peers.processes[rank].pid == getpid());
          if (other != peers.rank)
            CHECK(read_text(peers.sockets[rank], Deadline(20)) == std::to_string(other));
        }
      });
    });
  for (std::thread& thread : threads) thread.join();
  return heard;
}

void check_all_hear(const std::vector<TcpEnvironment>& environments, const std::string& words) {
  for (const std::string& heard : meet(environments)) {
    CAPTURE(heard);
    CHECK(contains(heard, words));
  }
}

// A connection to rank 0, as soon as it listens.
Socket connect_at_last(const TcpAddress& first) {
  std::string why;
  Socket socket;
  for (const Deadline deadline(20); !socket.is_open() && deadline.left() > 0;)
    socket = connect_to(first, Deadline(1), why);
  return socket;
}

}  // namespace

TEST_CASE("a connection to everybody, by an address or by a file") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  for (const int size : {1, 2, 3, 5}) {
    std::vector<TcpEnvironment> by_address, by_file;
    const int port = free_port();
    for (int rank = size - 1; rank >= 0; --rank) {  // rank 0 is the last to come
      by_address.push_back({rank, size, {"localhost", port}, "", 20});
      by_file.push_back({rank, size, {}, file, 20});
    }
    check_all_hear(by_address, "nothing was thrown");
    check_all_hear(by_file, "nothing was thrown");
    CHECK_FALSE(std::filesystem::exists(file));
  }
}

TEST_CASE("a file that an earlier job has left is no obstacle") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  write_address_file(file, free_port());
  check_all_hear({{1, 2, {}, file, 20}, {0, 2, {}, file, 20}}, "nothing was thrown");
}

TEST_CASE("ranks that do not come are named, to those who have") {
  const TcpAddress first{"localhost", free_port()};
  check_all_hear({{0, 4, first, "", 0.5}, {2, 4, first, "", 20}},
                 "of 4 ranks these have not come within 0.5 s: 1, 3. Have they been started, with "
                 "the same MASTER_ADDR and MASTER_PORT as rank 0 (process ");
}

TEST_CASE("connections that say nothing, or not enough, hold up nobody") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<Socket> silent;
  std::vector<std::string> heard(3);
  const Deadline began(0);
  std::thread zero([&] { heard[0] = meet({{0, 3, first, "", 1}})[0]; });
  for (int i = 0; i < 4; ++i) silent.push_back(connect_at_last(first));
  write_all(silent[0], "yotta", Deadline(1));
  heard[1] = meet({{1, 3, first, "", 20}})[0];
  zero.join();
  const double seconds = -began.left();
  CAPTURE(seconds);
  CHECK(seconds < 4);
  for (const size_t rank : {size_t{0}, size_t{1}})
    CHECK(contains(heard[rank], "of 3 ranks these have not come within 1 s: 2."));
}

TEST_CASE("who came early may have waited all his time when the last one comes") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> early, last;
  std::thread others([&] {
    early = meet({{0, 4, first, "", 20}, {1, 4, first, "", 1}, {2, 4, first, "", 1}});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  last = meet({{3, 4, first, "", 20}});
  others.join();
  for (const std::string& text : early) CHECK(text == "nothing was thrown");
  CHECK(last[0] == "nothing was thrown");
}

TEST_CASE("two processes with one rank, and different numbers of ranks, are told to all") {
  const TcpAddress first{"localhost", free_port()};
  const TcpEnvironment zero{0, 3, first, "", 20}, one{1, 3, first, "", 20};
  check_all_hear({zero, one, one}, "two processes say that they are rank 1: process ");
  TcpEnvironment other = one;
  other.size = 2;
  check_all_hear({zero, other}, "WORLD_SIZE is 3 for rank 0 (process ");
  CHECK(contains(meet({{3, 3, first, "", 1}})[0], "RANK is 3, but WORLD_SIZE is 3"));
}

TEST_CASE("rank 0 cannot be reached, or is somebody else") {
  const int port = free_port();
  CHECK(contains(meet({{1, 2, {"localhost", port}, "", 0.2}})[0],
                 fmt::format("rank 1 could not reach rank 0 at localhost:{} within 0.2 s: "
                             "Connection refused. Is rank 0 running, and are MASTER_ADDR",
                             port)));
  CHECK(contains(meet({{1, 2, {"no.such.host.invalid", port}, "", 0.2}})[0],
                 "could not reach rank 0 at no.such.host.invalid:"));
  CHECK(contains(meet({{1, 2, {}, "/no/such/file", 0.2}})[0],
                 "could not reach rank 0 at /no/such/file within 0.2 s: the file does not say"));
  const Socket other = listen_at(0);
  std::thread answers([&] {
    const Socket accepted = accept_from(other, Deadline(20));
    write_all(accepted, "220 mail.example.com ESMTP ready", Deadline(5));
  });
  CHECK(contains(meet({{1, 2, {"localhost", own_end(other).port}, "", 5}})[0],
                 "what is there is no rank 0"));
  answers.join();
}

TEST_CASE("an earlier job's file whose port is another program's by now") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  const Socket other = listen_at(0);
  write_address_file(file, own_end(other).port);
  std::vector<std::string> heard(2);
  std::thread one([&] { heard[1] = meet({{1, 2, {}, file, 20}})[0]; });
  write_all(accept_from(other, Deadline(20)), "220 mail.example.com ESMTP ready", Deadline(5));
  heard[0] = meet({{0, 2, {}, file, 20}})[0];
  one.join();
  for (const std::string& text : heard) CHECK(text == "nothing was thrown");
}

TEST_CASE("rank 0's port is taken") {
  const Socket other = listen_at(0);
  const TcpAddress first{"localhost", own_end(other).port};
  CHECK(contains(meet({{0, 2, first, "", 1}})[0],
                 "Address already in use. Does another job use it, or another process with RANK=0? "
                 "Choose another MASTER_PORT"));
}

TEST_CASE("a stranger at rank 0's port is not counted, and disturbs nobody") {
  const TcpAddress first{"localhost", free_port()};
  std::thread stranger([&] {
    const Socket socket = connect_at_last(first);
    write_all(socket, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Deadline(5));
  });
  std::vector<std::string> heard(2);
  std::thread zero([&] { heard[0] = meet({{0, 2, first, "", 20}})[0]; });
  stranger.join();
  heard[1] = meet({{1, 2, first, "", 20}})[0];
  zero.join();
  for (const std::string& text : heard) CHECK(text == "nothing was thrown");
}
