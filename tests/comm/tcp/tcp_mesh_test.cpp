// Processes of a job that are threads, with ZeroMQ's sockets between them.
#include "yotta/comm/tcp/tcp_mesh.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "comm/local_tcp.hpp"
#include "comm/strangers.hpp"
#include "comm/tcp_lines.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// So many u8, or f32.
TcpFrame message(int32_t world, int64_t tag, int64_t count = 0, DType dtype = DType::u8) {
  return {
      .kind = TcpFrame::Kind::message, .dtype = dtype, .world = world, .tag = tag, .count = count};
}

// Until it holds.
template <class Holds>
bool wait_until(TcpMesh& mesh, Holds holds) {
  for (const Deadline deadline(longest_wait); !holds() && deadline.left() > 0;) mesh.progress(0.05);
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
      mesh->send(1, message(1, 5, 1'000'000, DType::f32), send);
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
      for (const int world : {1, 2}) mesh->send(1, message(world, 10 + world, 5), "bytes");
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
      std::vector<char> data(50'000'000, 'x');  // more than the kernel takes at once
      Request begun, waits;
      begun.data =
          waits.data = {reinterpret_cast<std::byte*>(data.data()), std::ssize(data), DType::u8};
      mesh->send(1, message(1, 1, 50'000'000), begun);
      mesh->send(1, message(1, 2, 50'000'000), waits);
      CHECK(mesh->is_sending());
      mesh->forget(begun);
      mesh->forget(waits);
      std::fill(data.begin(), data.end(), 'y');
      mesh->send(1, message(1, 3));
      CHECK(wait_until(*mesh, [&] { return !mesh->is_sending(); }));
      CHECK(notes.all_sent.empty());
    } else {
      CHECK(wait_until(*mesh, [&] { return notes.notes.size() == 2; }));
      CHECK(notes.notes[0].bytes == std::string(50'000'000, 'x'));
      CHECK(notes.notes[1].tag == 3);
    }
    meet(*mesh);
    mesh->say_goodbye();
  });
}

TEST_CASE(
    "a process that ends with a good-bye is gone, without one it is lost, and others hear of it") {
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

TEST_CASE("what is lost has nothing under way to it any more") {
  on_meshes(2, [](const std::shared_ptr<TcpMesh>& mesh) {
    meet(*mesh);
    if (mesh->rank() == 1) return;  // its sockets are closed with it
    mesh->send_text(1, std::string(50'000'000, 'x'));
    CHECK(mesh->is_sending());
    CHECK(wait_until(*mesh, [&] { return mesh->lost() == 1; }));
    CHECK_FALSE(mesh->is_sending());
    CHECK(contains(mesh->describe_lost(), "rank 1 has failed: its process, "));
  });
}

TEST_CASE("what no rank sends is the end of the rank that has sent it, and says from where") {
  on_meshes(2, [](const std::shared_ptr<TcpMesh>& mesh) {
    meet(*mesh);
    if (mesh->rank() == 1) mesh->send(0, {.kind = TcpFrame::Kind::control, .tag = 99});
    if (mesh->rank() == 0) {
      CHECK(wait_until(*mesh, [&] { return mesh->lost() == 1; }));
      CHECK(contains(mesh->describe_lost(), "rank 1 has sent from "));
      CHECK(contains(mesh->describe_lost(), "what no rank sends: control message 99"));
      mesh->send_text(1, "heard");
    }
    if (mesh->rank() == 1) CHECK(wait_until(*mesh, [&] { return mesh->is_gone(0); }));
    mesh->say_goodbye();
  });
}

TEST_CASE("a rank that sends several frames, or as another rank, is lost itself, and no other") {
  for (const bool as_another : {false, true}) {
    const TemporaryFolder folder;
    std::atomic<bool> heard = false;
    on_threads_of(3, [&](int rank) {
      const TcpEnvironment self{rank, 3, {}, (folder / "rank0").string(), longest_wait};
      TcpPeers peers = TcpRendezvous(self).connect();
      if (rank == 1) {  // no mesh: it says what it likes
        const TcpPart part{.from = 2, .to = 0};
        const std::string as_two(reinterpret_cast<const char*>(&part), sizeof part);
        zmq::socket_t& data = peers.lines[0]->data;
        if (!as_another) data.send(zmq::buffer(as_two), zmq::send_flags::sndmore);
        data.send(zmq::buffer(as_two), zmq::send_flags::none);
        while (!heard) std::this_thread::yield();
        return;
      }
      TcpMesh mesh(std::move(peers), 0.1);
      if (rank == 2) {
        CHECK(wait_until(mesh, [&] { return mesh.lost() == 1; }));
      } else {
        CHECK(wait_until(mesh, [&] { return mesh.lost() >= 0; }));
        CHECK(mesh.lost() == 1);
        CHECK(contains(mesh.describe_lost(), " what no rank sends: "));
        CHECK(contains(mesh.describe_lost(), as_another ? "a message from rank 2 to rank 0"
                                                        : "a message of several frames"));
        heard = true;
      }
      mesh.say_goodbye();
    });
  }
}

TEST_CASE("a process with the key that is no rank is reported, and what it sends is dropped") {
  const std::string key = make_job_key();
  const TcpAddress first{"localhost", free_port()};
  const StderrText text;
  std::atomic<bool> is_reported = false;
  on_threads_of(2, [&](int rank) {
    std::optional<KeyHolder> other;
    if (rank == 1) other.emplace(key, first.port);
    if (rank == 1) REQUIRE(other->is_connected());
    TcpMesh mesh(TcpRendezvous({rank, 2, first, "", longest_wait, key, true}).connect());
    const TcpPart part{.from = 1, .to = 0};
    bool goes_on = true;
    for (int i = 0; i < 3 || goes_on; ++i) {
      if (rank == 1)
        other->send({std::string(reinterpret_cast<const char*>(&part), sizeof part), "more"});
      if (rank == 0) is_reported = !text.get().empty();
      meet(mesh);
      goes_on = !is_reported && i < 5000;  // read between two meetings: the same on both ranks
      meet(mesh);
    }
    CHECK(mesh.lost() == -1);
    mesh.say_goodbye();
  });
  CHECK(text.get() ==
        "rank 0: a process at 127.0.0.1 has the job's key, but what it sends is not a rank's, "
        "and is dropped: a connection of no rank\n");
}

TEST_CASE("a good-bye that names a lost process tells those that have not noticed yet") {
  on_meshes(3, [](const std::shared_ptr<TcpMesh>& mesh) {
    meet(*mesh);
    if (mesh->rank() == 1) mesh->send(0, {.kind = TcpFrame::Kind::goodbye, .tag = 2});
    if (mesh->rank() == 0) CHECK(wait_until(*mesh, [&] { return mesh->lost() == 2; }));
    if (mesh->rank() == 2) CHECK(mesh->lost() == -1);
    meet(*mesh);
    mesh->say_goodbye();
  });
}
