#include "yotta/comm/tcp/tcp_connections.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <fstream>
#include <thread>

#include "comm/local_tcp.hpp"
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
  const std::string huge(1 << 24,
                         'x');  // more than the kernel keeps for a process that does not read
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
    const TextHeader head{.length = uint64_t{1} << 60};
    CHECK(write_all(pair.one, {reinterpret_cast<const char*>(&head), sizeof head}, Deadline(5)));
    CHECK_FALSE(read_text(pair.two, Deadline(5)).has_value());
  }
  Pair pair;
  pair.one = Socket();
  CHECK_FALSE(read_text(pair.two, Deadline(5)).has_value());
}

namespace {

// Notes what comes; its receive is the one it is given.
class Notes : public TcpReceiver {
 public:
  struct Note {
    int from;
    int64_t tag;
    Request* recv;
    std::string bytes;
  };
  std::vector<Note> notes;
  std::vector<Request*> all_sent;
  Request* recv = nullptr;

 private:
  Request* find_recv(int /*from*/, const TcpFrame& /*frame*/) override { return recv; }
  void arrived(int from, const TcpFrame& frame, Request* there, std::string bytes) override {
    notes.push_back({from, frame.tag, there, std::move(bytes)});
  }
  void sent(Request& request) override { all_sent.push_back(&request); }
};

TcpFrame message(int32_t world, int64_t tag) {
  return {.kind = TcpFrame::Kind::message, .world = world, .tag = tag};
}

// Until it holds; 20 seconds at most.
template <class Holds>
bool wait_until(TcpMesh& mesh, Holds holds) {
  for (const Deadline deadline(20); !holds() && deadline.left() > 0;) mesh.progress(0.05);
  return holds();
}

std::string text_from(TcpMesh& mesh, int other) {
  std::optional<std::string> text;
  wait_until(mesh, [&] { return text.has_value() || (text = mesh.take_text(other)).has_value(); });
  return text.value_or("none");
}
// All are here.
void meet(TcpMesh& mesh) {
  for (int other = 0; other < mesh.size(); ++other) mesh.send_text(other, "here");
  for (int other = 0; other < mesh.size(); ++other) CHECK(text_from(mesh, other) == "here");
}

}  // namespace

TEST_CASE("texts in order, from all, itself too, of any length") {
  on_meshes(3, [](const std::shared_ptr<TcpMesh>& mesh) {
    const std::string large(3'000'000, static_cast<char>('a' + mesh->rank()));
    for (int other = 0; other < 3; ++other)
      for (const std::string& text : {std::string("first"), std::string(), large})
        mesh->send_text(other, text);
    for (int other = 0; other < 3; ++other) {
      CHECK(text_from(*mesh, other) == "first");
      CHECK(text_from(*mesh, other).empty());
      CHECK(text_from(*mesh, other) == std::string(3'000'000, static_cast<char>('a' + other)));
    }
    meet(*mesh);
    CHECK_FALSE(mesh->take_text(0).has_value());
    mesh->say_goodbye();
  });
}

TEST_CASE("a frame's bytes go where there is room, and come with it where there is none") {
  on_meshes(2, [](const std::shared_ptr<TcpMesh>& mesh) {
    Notes notes;
    mesh->attach(1, &notes);
    std::vector<float> data(1'000'000, 7), here(data.size());
    Request send, recv;
    send.data = Data(data);
    recv.data = Data(here);
    if (mesh->rank() == 1) notes.recv = &recv;
    meet(*mesh);
    if (mesh->rank() == 0) {
      mesh->send(1, message(1, 5), send);
      CHECK(wait_until(*mesh, [&] { return notes.all_sent.size() == 1; }));
      CHECK(notes.all_sent[0] == &send);
      mesh->send(1, message(1, 6));
    } else {
      CHECK(wait_until(*mesh, [&] { return notes.notes.size() == 2; }));
      CHECK(notes.notes[0].recv == &recv);
      CHECK(here == data);
      CHECK(notes.notes[1].tag == 6);
      CHECK(notes.notes[1].recv == nullptr);
    }
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE(
    "frames of a run that has not begun here wait for it; those of one that is over are dropped") {
  on_meshes(2, [](const std::shared_ptr<TcpMesh>& mesh) {
    Notes first, second;
    if (mesh->rank() == 0)
      for (const int world : {1, 2}) mesh->send(1, message(world, 10 + world), "bytes");
    meet(*mesh);
    mesh->attach(2, &second);
    if (mesh->rank() == 1) {
      REQUIRE(second.notes.size() == 1);
      CHECK(second.notes[0].tag == 12);
      CHECK(second.notes[0].bytes == "bytes");
    }
    meet(*mesh);
    mesh->detach(&first);  // of an older run
    mesh->send(1 - mesh->rank(), message(2, 20));
    CHECK(
        wait_until(*mesh, [&] { return !second.notes.empty() && second.notes.back().tag == 20; }));
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE("a request that is forgotten is not touched; what has begun is sent to its end") {
  on_meshes(2, [](const std::shared_ptr<TcpMesh>& mesh) {
    Notes notes;
    mesh->attach(1, &notes);
    meet(*mesh);
    if (mesh->rank() == 0) {
      std::vector<char> data(20'000'000, 'x');  // more than the kernel takes at once
      Request begun, waits;
      begun.data =
          waits.data = {reinterpret_cast<std::byte*>(data.data()), std::ssize(data), DType::u8};
      mesh->send(1, message(1, 1), begun);
      mesh->send(1, message(1, 2), waits);
      CHECK(mesh->is_sending());
      mesh->forget(begun);
      mesh->forget(waits);
      std::fill(data.begin(), data.end(), 'y');
      mesh->send(1, message(1, 3));
      CHECK(wait_until(*mesh, [&] { return !mesh->is_sending(); }));
      CHECK(notes.all_sent.empty());
    } else {
      CHECK(wait_until(*mesh, [&] { return notes.notes.size() == 2; }));
      CHECK(notes.notes[0].bytes == std::string(20'000'000, 'x'));
      CHECK(notes.notes[1].tag == 3);
    }
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE(
    "who ends with a good-bye is gone, who ends without is lost; who has lost another says so") {
  on_meshes(3, [](std::shared_ptr<TcpMesh> mesh) {
    meet(*mesh);
    if (mesh->rank() == 1) mesh->say_goodbye();
    if (mesh->rank() > 0) return;
    CHECK(wait_until(*mesh, [&] { return mesh->is_gone(1) && mesh->is_gone(2); }));
    CHECK(mesh->lost() == 2);
    CHECK_NOTHROW(mesh->send_text(2, "too late"));
    CHECK_FALSE(mesh->is_sending());
  });
}

TEST_CASE("who has lost one names it to the others, and has nothing under way to it any more") {
  const auto connection = [] {
    int ends[2] = {-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    return std::array{Socket(ends[0]), Socket(ends[1])};
  };
  auto between = connection(), to_lost = connection(), stays_open = connection();
  TcpPeers zero{0, {}, std::vector<ProcessAddress>(3)}, two{2, {}, zero.processes};
  zero.sockets.emplace_back();
  zero.sockets.push_back(std::move(to_lost[0]));
  zero.sockets.push_back(std::move(between[0]));
  two.sockets.push_back(std::move(between[1]));
  two.sockets.push_back(std::move(stays_open[0]));
  two.sockets.emplace_back();
  TcpMesh first(std::move(zero)), second(std::move(two));
  first.send_text(1, std::string(3'000'000, 'x'));
  CHECK(first.is_sending());
  { const Socket killed = std::move(to_lost[1]); }
  CHECK(wait_until(first, [&] { return first.lost() == 1; }));
  CHECK_FALSE(first.is_sending());
  second.progress(0);
  CHECK(second.lost() == -1);
  first.say_goodbye();
  CHECK(wait_until(second, [&] { return second.lost() == 1; }));
}

TEST_CASE("a host that vanishes would be noticed: its connections are asked") {
  const Socket listener = listen_at(0);
  std::string why;
  Socket to_other = connect_to({"127.0.0.1", own_end(listener).port}, Deadline(5), why);
  const int fd = to_other.fd();
  TcpPeers job{0, {}, std::vector<ProcessAddress>(2)};
  job.sockets.emplace_back();
  job.sockets.push_back(std::move(to_other));
  const TcpMesh mesh(std::move(job));
  const auto option = [fd](int level, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    getsockopt(fd, level, name, &value, &length);
    return value;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) +
            option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT) ==
        30);
}

TEST_CASE("a good-bye that names a process as lost is believed by who has not noticed yet") {
  on_meshes(3, [](const std::shared_ptr<TcpMesh>& mesh) {
    meet(*mesh);
    if (mesh->rank() == 1) mesh->send(0, {.kind = TcpFrame::Kind::goodbye, .tag = 2});
    if (mesh->rank() == 0) CHECK(wait_until(*mesh, [&] { return mesh->lost() == 2; }));
    if (mesh->rank() == 2) CHECK(mesh->lost() == -1);
    meet(*mesh);
    mesh->say_goodbye();
  });
}
