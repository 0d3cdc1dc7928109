#include "yotta/comm/tcp/tcp_mesh.hpp"

#include <doctest/doctest.h>

#include "comm/tcp_job.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Notes what comes; has room where it is told.
class Notes : public TcpReceiver {
 public:
  struct Note {
    int from;
    int64_t tag;
    Request* room;
    std::string bytes;
  };
  std::vector<Note> notes;
  std::vector<Request*> all_sent;
  Request* room = nullptr;

 private:
  Request* find_room(int /*from*/, const TcpFrame& /*frame*/) override { return room; }
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
    if (mesh->rank() == 1) notes.room = &recv;
    meet(*mesh);
    if (mesh->rank() == 0) {
      mesh->send(1, message(1, 5), send);
      CHECK(wait_until(*mesh, [&] { return notes.all_sent.size() == 1; }));
      CHECK(notes.all_sent[0] == &send);
      mesh->send(1, message(1, 6));
    } else {
      CHECK(wait_until(*mesh, [&] { return notes.notes.size() == 2; }));
      CHECK(notes.notes[0].room == &recv);
      CHECK(here == data);
      CHECK(notes.notes[1].tag == 6);
      CHECK(notes.notes[1].room == nullptr);
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
  TcpJob zero{0, {}, std::vector<ProcessAddress>(3)}, two{2, {}, zero.processes};
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
  TcpJob job{0, {}, std::vector<ProcessAddress>(2)};
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
