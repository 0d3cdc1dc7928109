// Processes of a job that are threads, with pairs of sockets between them.
#include "yotta/comm/sockets/socket_mesh.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "comm/local_sockets.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// So many u8, or f32.
SocketFrame message(int32_t world, int64_t tag, int64_t count = 0, DType dtype = DType::u8) {
  return {.kind = SocketFrame::Kind::message,
          .dtype = dtype,
          .world = world,
          .tag = tag,
          .count = count};
}

// Until it holds.
template <class Holds>
bool wait_until(SocketMesh& mesh, Holds holds) {
  for (const double until = seconds_now() + longest_wait; !holds() && seconds_now() < until;)
    mesh.progress(0.05);
  return holds();
}

std::string text_from(SocketMesh& mesh, int other) {
  std::optional<std::string> text;
  wait_until(mesh, [&] { return text.has_value() || (text = mesh.take_text(other)).has_value(); });
  return text.value_or("none");
}
// All are here.
void meet(SocketMesh& mesh) {
  for (int other = 0; other < mesh.size(); ++other) mesh.send_text(other, "here");
  for (int other = 0; other < mesh.size(); ++other) CHECK(text_from(mesh, other) == "here");
}

}  // namespace

TEST_CASE("texts in order, from all, itself too, of any length") {
  on_meshes(3, [](const std::shared_ptr<SocketMesh>& mesh) {
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
  on_meshes(2, [](const std::shared_ptr<SocketMesh>& mesh) {
    SocketNotes notes;
    mesh->attach(1, &notes);
    std::vector<float> data(1'000'000, 7), here(data.size());
    Request send, recv;
    send.data = Data(data);
    recv.data = Data(here);
    if (mesh->rank() == 1) notes.recv = &recv;
    meet(*mesh);
    if (mesh->rank() == 0) {
      mesh->send(1, message(1, 5, 1'000'000, DType::f32), send);
      CHECK(wait_until(*mesh, [&] { return notes.all_sent.size() == 1; }));
      CHECK(notes.all_sent[0] == &send);
      mesh->send(1, message(1, 6));
    } else {
      CHECK(wait_until(*mesh, [&] { return notes.notes.size() == 2; }));
      CHECK((notes.notes[0].recv == &recv && here == std::vector<float>(1'000'000, 7)));
      CHECK((notes.notes[1].recv == nullptr && notes.notes[1].tag == 6));
    }
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE("a request that is withdrawn when part of it has left: the other side gets the rest") {
  std::atomic<bool> withdrawn = false;  // nothing is read before
  on_meshes(2, [&](const std::shared_ptr<SocketMesh>& mesh) {
    SocketNotes notes;
    mesh->attach(1, &notes);
    if (mesh->rank() == 0) {
      std::vector<float> data(1'000'000, 7);  // more than a socket takes
      Request first, second;
      first.data = second.data = Data(data);
      mesh->send(1, message(1, 5, 1'000'000, DType::f32), first);
      mesh->send(1, message(1, 6, 1'000'000, DType::f32), second);
      mesh->forget(first);
      mesh->forget(second);  // nothing of it has left: it never does
      std::fill(data.begin(), data.end(), 0.0f);
      mesh->send(1, message(1, 7));
      withdrawn = true;
    } else {
      while (!withdrawn) std::this_thread::yield();
      REQUIRE(wait_until(*mesh, [&] { return notes.notes.size() == 2; }));
      CHECK((notes.notes[0].tag == 5 && notes.notes[1].tag == 7));
      std::vector<float> got(1'000'000);
      REQUIRE(notes.notes[0].bytes.size() == 4 * got.size());
      std::memcpy(got.data(), notes.notes[0].bytes.data(), 4 * got.size());
      CHECK(got == std::vector<float>(1'000'000, 7));
    }
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE("a process whose sockets end without a good-bye is lost, and what it had sent has come") {
  std::atomic<bool> filled = false;
  on_meshes(2, [&](std::shared_ptr<SocketMesh> mesh) {
    if (mesh->rank() == 1) {
      for (int i = 0; i < 100; ++i) mesh->send_text(0, std::to_string(i));
      while (mesh->is_sending()) mesh->progress(0.01);
      mesh.reset();
      filled = true;
      return;
    }
    while (!filled) std::this_thread::yield();
    mesh->send_text(1, "to nobody");
    CHECK(mesh->lost() == -1);
    CHECK(wait_until(*mesh, [&] { return mesh->lost() == 1; }));
    for (int i = 0; i < 100; ++i) REQUIRE(mesh->take_text(1) == std::to_string(i));
    CHECK(contains(mesh->describe_lost(),
                   fmt::format("rank 1 has failed: its process, {} on ", getpid())));
    CHECK((mesh->is_gone(1) && !mesh->is_sending()));
  });
}

TEST_CASE("who has said good-bye is not lost, however much it leaves unread") {
  std::atomic<bool> sent = false;
  on_meshes(2, [&](std::shared_ptr<SocketMesh> mesh) {
    if (mesh->rank() == 1) {
      while (!sent) std::this_thread::yield();
      return mesh->say_goodbye();
    }
    mesh->send_text(1, std::string(1000, 'x'));
    sent = true;
    CHECK(wait_until(*mesh, [&] { return mesh->is_gone(1); }));
    for (int i = 0; i < 20; ++i) mesh->progress(0.01);
    CHECK(mesh->lost() == -1);
  });
}

TEST_CASE("the starter's word names the lost, and says how; what it had sent comes first") {
  auto [own, its] = joined_sockets(SOCK_SEQPACKET);
  WordLine starter(std::move(own));
  std::vector<SocketPeers> peers = socket_peers(3);
  peers[0].line = std::make_shared<JobLine>(std::move(its));
  peers[0].epoch = 2;
  SocketMesh mesh(std::move(peers[0])), well(std::move(peers[1])), killed(std::move(peers[2]));
  starter.put("lost 1 2 was killed long ago");  // in an epoch that has ended
  mesh.progress(0.01);
  CHECK(mesh.lost() == -1);
  well.say_goodbye();
  killed.send_text(0, std::string(120'000, 'x'));  // more than is read at once
  killed.send_text(0, "its last");
  REQUIRE_FALSE(killed.is_sending());
  starter.put("lost 2 1 has ended with status 1");
  starter.put("lost 2 2 was killed: Killed");
  CHECK(wait_until(mesh, [&] { return mesh.lost() >= 0; }));
  CHECK(mesh.lost() == 2);  // rank 1 has said goodbye
  CHECK(mesh.describe_lost().ends_with(", was killed: Killed"));
  CHECK(mesh.take_text(2).value_or("").size() == 120'000);
  CHECK(mesh.take_text(2) == "its last");
}

TEST_CASE("a good-bye that names a lost process tells those that have not noticed yet") {
  on_meshes(3, [](const std::shared_ptr<SocketMesh>& mesh) {
    meet(*mesh);
    if (mesh->rank() == 1) mesh->send(0, {.kind = SocketFrame::Kind::goodbye, .tag = 2});
    if (mesh->rank() == 0) CHECK(wait_until(*mesh, [&] { return mesh->lost() == 2; }));
    if (mesh->rank() == 2) CHECK(mesh->lost() == -1);
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE("over a slow link what is sent leaves late, and in order") {
  on_meshes(2, [](const std::shared_ptr<SocketMesh>& mesh) {
    meet(*mesh);
    mesh->slow_down({.bytes_per_second = 1e7, .latency = 0.02});
    const double begin = seconds_now();
    mesh->send_text(1 - mesh->rank(), std::string(1'000'000, 'x'));
    mesh->send_text(1 - mesh->rank(), "after it");
    mesh->send_text(mesh->rank(), "own");
    CHECK(text_from(*mesh, mesh->rank()) == "own");  // not over the link
    CHECK(wait_until(*mesh, [&] { return !mesh->is_sending(); }));
    CHECK(seconds_now() - begin >= 0.11);  // the second leaves when the first has: 0.02 + 0.1 s
    CHECK(text_from(*mesh, 1 - mesh->rank()).size() == 1'000'000);
    CHECK(text_from(*mesh, 1 - mesh->rank()) == "after it");
    mesh->say_goodbye();
  });
}
