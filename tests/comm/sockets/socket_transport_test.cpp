// Ranks on sockets as threads of one process. What every transport must do is tested on processes
// too: see tests/CMakeLists.txt.
#include "yotta/comm/sockets/socket_transport.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "comm/local_sockets.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/thread_state.hpp"

using namespace yotta;
using namespace yotta_test;
using Errors = std::vector<std::string>;

namespace {

constexpr SocketOptions quick{.patience = 0.05};

void check_well(const Errors& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

// Every rank to every rank, itself too: a message of each length.
void all_to_all_messages(Communicator& world, const std::vector<int64_t>& lengths) {
  const int p = world.size(), rank = world.rank();
  std::vector<std::vector<float>> in, out;
  std::vector<Work> works;
  for (int other = 0; other < p; ++other)
    for (const int64_t n : lengths) {
      out.emplace_back(static_cast<size_t>(n), static_cast<float>(100 * rank + other));
      in.emplace_back(static_cast<size_t>(n), -1.0f);
    }
  size_t i = 0;
  for (int other = 0; other < p; ++other)
    for (size_t l = 0; l < lengths.size(); ++l, ++i) {
      works.push_back(world.send_async(out[i], other, static_cast<int>(l)));
      works.push_back(world.recv_async(in[i], other, static_cast<int>(l)));
    }
  for (Work& work : works) work.wait();
  i = 0;
  for (int other = 0; other < p; ++other)
    for (const int64_t n : lengths) {
      const std::vector<float>& x = in[i++];
      CHECK(std::count(x.begin(), x.end(), static_cast<float>(100 * other + rank)) == n);
    }
}

}  // namespace

TEST_CASE("messages of all lengths, eager and by rendezvous, between all ranks at once") {
  for (const int64_t eager_bytes : {int64_t{-1}, int64_t{0}, int64_t{64}, int64_t{1} << 30})
    for (const int p : {1, 2, 3}) {
      SocketOptions options;
      options.eager_bytes = eager_bytes;
      check_well(on_sockets(
          p,
          [](Communicator& world) {
            all_to_all_messages(world, {0, 1, 16, 17, 1000, 300000});
          },
          options));
    }
}

TEST_CASE("a rank that waits for a message sleeps") {
  check_well(on_sockets(2, [](Communicator& world) {
    for (int i = 0; i < 3; ++i) CHECK(sleeps_while_it_waits(world));
  }));
}

TEST_CASE(
    "collectives, communicators of some ranks, and messages that come before they are asked for") {
  for (const int p : {1, 2, 3, 4})
    check_well(on_sockets(p, [](Communicator& world) {
      const int size = world.size(), rank = world.rank();
      std::vector<double> x(40000, rank + 1), y(7, 1);
      Communicator half = world.split(rank % 2, 0);
      Work all = world.all_reduce_async(x), some = half.all_reduce_async(y);
      some.wait();
      all.wait();
      CHECK(x[39999] == size * (size + 1) / 2);
      CHECK(y[6] == half.size());
      for (int i = 0; i < 3; ++i) world.send(std::vector{rank, i}, (rank + 1) % size, i);
      world.barrier();
      for (int i = 2; i >= 0; --i) {
        std::vector<int> got(2);
        world.recv(got, (rank + size - 1) % size, i);
        CHECK(got == std::vector{(rank + size - 1) % size, i});
      }
    }));
}

TEST_CASE("sends that must not be buffered wait for their receiver") {
  const auto both_send_first = [](Communicator& world) {
    std::vector<double> x(2), y(2);
    world.send(x, 1 - world.rank());
    world.recv(y, 1 - world.rank());
  };
  check_well(on_sockets(2, both_send_first, quick));
  EngineOptions unbuffered;
  unbuffered.buffered_sends = false;
  SocketOptions all_ask = quick;
  all_ask.eager_bytes = -1;
  for (const std::string& error : on_sockets(2, both_send_first, all_ask, unbuffered)) {
    CHECK(contains(error, "deadlock: rank 0 waits for 1 waits for 0"));
    CHECK(contains(error, "send of 2 f64 with tag 0 at socket_transport_test.cpp:"));
    CHECK(contains(error, "try: use send_recv, or let some"));
  }
}

TEST_CASE("a failure reaches ranks that wait, whatever is under way") {
  for (const int64_t n : {int64_t{10}, int64_t{1} << 22}) {
    const Errors errors = on_sockets(3, [n](Communicator& world) {
      std::vector<float> x(static_cast<size_t>(n)), y(x);
      const int next = (world.rank() + 1) % 3;
      if (world.rank() < 2) world.send(x, next);  // no rank receives it
      if (world.rank() == 2) fail(Where::current(), "the disk is full");
      world.recv(y, next, 5);
    });
    CHECK(contains(errors[0], "rank 2 has failed: socket_transport_test.cpp:"));
    CHECK(contains(errors[1], "the disk is full"));
    CHECK(errors[2].starts_with("socket_transport_test.cpp:"));
  }
}

TEST_CASE("after a failure no rank touches what was being sent") {
  for (const int culprit : {0, 1}) {
    std::atomic<bool> posted = false, over = false;
    on_meshes(2, [&](const std::shared_ptr<SocketMesh>& mesh) {
      SocketOptions eager;
      eager.eager_bytes = 1 << 30;
      SocketTransport transport(mesh, 2, 1, eager);
      const Call call{.operation = "send", .where = Where::current()};
      std::vector<float> x(12 << 20);  // more than a socket takes
      Request request;
      const int rank = mesh->rank();
      if (rank == 0) {
        request.peer = 1;
        request.data = x;
        request.call = &call;
        transport.post(request);
        posted = true;
      }
      while (!posted) std::this_thread::yield();
      if (rank == culprit) transport.fail("the disk is full");
      while (rank == 1 && culprit == 0 && !over) std::this_thread::yield();
      if (rank != culprit) CHECK_THROWS_AS(transport.end(Where::current()), PeerFailed);
      if (rank == 0) over = true;
      while (!over) std::this_thread::yield();  // before that rank 1 reads nothing
      mesh->say_goodbye();
      while (!mesh->is_gone(0) && rank == 1) mesh->progress(0.01);  // takes all of it
      CHECK_FALSE(request.done);
    });
  }
}

TEST_CASE("a large message whose sender or receiver withdraws after the offer goes nowhere") {
  for (const int who : {0, 1})
    on_meshes(2, [&](const std::shared_ptr<SocketMesh>& mesh) {
      const int rank = mesh->rank(), other = 1 - rank;
      SocketTransport transport(mesh, 2, 1);
      const auto hear = [&] {
        while (!mesh->take_text(other)) mesh->progress(0.01);
      };
      const Call call{.operation = "a message", .where = Where::current()};
      std::vector<float> x(100'000, static_cast<float>(rank));
      Request request;
      request.kind = rank == 0 ? Request::Kind::send : Request::Kind::recv;
      request.peer = other;
      request.data = x;
      request.call = &call;
      if (rank == 1) hear();
      transport.post(request);
      if (rank == who) transport.withdraw(request);
      mesh->send_text(other, "posted");
      if (rank == 0) hear();
      mesh->say_goodbye();
      while (!mesh->is_gone(0) && rank == 1) mesh->progress(0.01);
      CHECK(std::count(x.begin(), x.end(), static_cast<float>(rank)) == 100'000);
      if (rank == 1) CHECK(request.done == (who == 1));
    });
}

TEST_CASE("all ranks name the process whose sockets close without a good-bye") {
  std::atomic<int> told = 0;
  on_meshes(3, [&](std::shared_ptr<SocketMesh> mesh) {
    if (mesh->rank() == 1) return;  // its sockets are closed with it
    SocketTransport transport(mesh, 3, 1);
    while (!transport.failed()) message_of([&] { transport.check(Where::current()); });
    const std::string text = message_of([&] { transport.check(Where::current()); });
    told += contains(text, fmt::format("rank 1 has failed: its process, {} on ", getpid()));
    CHECK_THROWS_AS(transport.check(Where::current()), PeerFailed);
  });
  CHECK(told == 2);
}

TEST_CASE("deadlocks are explained, with the tag that has come instead") {
  const Errors errors = on_sockets(
      3,
      [](Communicator& world) {
        std::vector<float> x(1), large(100000);
        if (world.rank() == 1) world.send(large, 0, 7);
        if (world.rank() == 0) world.recv(x, 1, 8);
      },
      quick);
  CHECK(contains(errors[0], "deadlock: rank 0 waits for 1, which has returned"));
  CHECK(contains(errors[0], "rank 1 has sent tag 7, but rank 0 waits for tag 8"));
  const Errors parted = on_sockets(
      2,
      [](Communicator& world) {
        std::vector<float> x(1);
        Communicator both = world.split(0, 0);
        if (world.rank() == 1) world.send(x, 0, 7);
        if (world.rank() == 0) both.recv(x, 1, 7);
      },
      quick);
  CHECK(contains(parted[0], "but rank 0 waits for tag 7 in another communicator"));
}

TEST_CASE("no rank sleeps beside what has come: another strand's look may have read it") {
  on_meshes(1, [](const std::shared_ptr<SocketMesh>& mesh) {
    SocketTransport transport(mesh, 1, 1, {.patience = longest_wait});
    const Call call{.operation = "recv", .where = Where::current()};
    const auto seconds_asleep = [&](std::array<Request*, 2> requests, double most) {
      const Waiting waiting{&call, Where::current(), requests};
      const double began = seconds_now();
      transport.sleep({&waiting, 1}, most);
      return seconds_now() - began;
    };
    std::vector<float> x(3), y(4);
    Request send, recv, other, done;
    send.data = x;
    recv.data = y;
    recv.kind = other.kind = Request::Kind::recv;
    other.data = y;
    other.tag = 1;
    done.done = true;
    for (Request* each : {&send, &recv, &other}) {
      each->call = &call;
      if (each != &send) transport.post(*each);
    }
    CHECK(seconds_asleep({&other, nullptr}, 0.1) >= 0.09);
    CHECK(seconds_asleep({&done, &other}, 0.1) >= 0.09);
    CHECK(seconds_asleep({&done, nullptr}, longest_wait) < longest_wait);
    transport.post(send);  // of another count: whatever comes next throws
    const double deadline = seconds_now() + longest_wait;
    CHECK_THROWS_WITH_AS(while (seconds_now() < deadline) transport.check(Where::current()),
                         doctest::Contains("rank 0 sends 3 f32"), Mismatch);
    CHECK_THROWS_AS(seconds_asleep({&other, &recv}, longest_wait), Mismatch);
    CHECK_THROWS_AS(seconds_asleep({&other, nullptr}, longest_wait), Mismatch);
    CHECK_THROWS_AS(transport.test(other), Mismatch);
    CHECK_THROWS_AS(transport.test(recv), Mismatch);
    CHECK(seconds_now() < deadline);
    for (Request* each : {&recv, &other}) transport.withdraw(*each);
    mesh->say_goodbye();
  });
}

TEST_CASE("counts and types that differ are a Mismatch at the receiver's line") {
  for (const bool comes_first : {true, false})
    for (const size_t n : {size_t{5}, size_t{50000}}) {
      const Errors errors = on_sockets(2, [&](Communicator& world) {
        std::vector<float> x(n), wrong(4);
        if (world.rank() == 0) {
          if (!comes_first) world.recv(wrong, 1, 9);
          world.send(x, 1);
        } else {
          Work recv;
          if (!comes_first) recv = world.recv_async(wrong, 0);
          if (!comes_first) world.send(wrong, 0, 9);
          if (comes_first) world.recv(wrong, 0);
          recv.wait();
        }
        world.barrier();
      });
      CHECK(contains(errors[1], "both sides of a message must name the same count and type"));
      CHECK(contains(errors[1], fmt::format("rank 0 sends {} f32", n)));
      CHECK(contains(errors[1], "rank 1 receives 4 f32 at socket_transport_test.cpp:"));
      CHECK(contains(errors[0], "rank 1 has failed: "));
    }
}

TEST_CASE("calls that differ are compared where that is asked for") {
  SocketOptions compare = quick;
  compare.compare_calls = true;
  const Errors errors = on_sockets(
      2,
      [](Communicator& world) {
        std::vector<float> x(4);
        if (world.rank() == 0) world.all_reduce(x);
        if (world.rank() == 1) world.broadcast(x, 0);
        world.barrier();
      },
      compare);
  for (const std::string& error : errors) {
    CHECK(contains(error, "all_reduce of 4 f32, sum"));
    CHECK(contains(error, "broadcast of 4 f32, root 0"));
  }
}

TEST_CASE("a message that no rank has received is told at the end, small or large, both ways") {
  const Errors small = on_sockets(2, [](Communicator& world) {
    if (world.rank() == 0) world.send(std::vector<float>(3), 1, 9);
  });
  CHECK(contains(small[1], "rank 0 sent 12 bytes with tag 9 to rank 1, which ended without"));
  const Errors large = on_sockets(
      2, [](Communicator& world) { world.send(std::vector<float>(100000), 1 - world.rank(), 9); });
  CHECK((contains(large[0], "sent 400000 bytes") || contains(large[1], "sent 400000 bytes")));
  const Errors one_way = on_sockets(2, [](Communicator& world) {
    if (world.rank() == 1) return;
    world.send(std::vector<float>(100000), 1, 9);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // rank 1 is at its end already
  });
  CHECK(contains(one_way[0], "rank 1 has failed: "));  // its sender hears of it too
  CHECK(contains(one_way[1], "rank 0 sent 400000 bytes with tag 9 to rank 1"));
}

TEST_CASE("what sockets cannot send is refused") {
  const Errors errors = on_sockets(1, [](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor x = Tensor::empty({4});
    world.send_recv(x, 0, x, 0);
  });
  CHECK(contains(errors[0], "a tensor on meta has no data that could be sent"));
}

TEST_CASE("a receive of another count or type is not overtaken by a later one that fits") {
  for (const bool other_type : {false, true}) {
    const Errors errors = on_sockets(2, [&](Communicator& world) {
      std::vector<float> three(3, 7), four(4);
      std::vector<int32_t> integers(3);
      if (world.rank() == 0) {
        world.recv(four, 1, 9);  // both of rank 1's receives are posted
        world.send(three, 1, 7);
        return;
      }
      Work wrong = other_type ? world.recv_async(integers, 0, 7) : world.recv_async(four, 0, 7);
      Work right = world.recv_async(three, 0, 7);
      world.send(std::vector<float>(4), 0, 9);
      wrong.wait();
      right.wait();
    });
    CHECK(contains(errors[1], "rank 0 sends 3 f32"));
    CHECK(contains(errors[1], other_type ? "rank 1 receives 3 i32" : "rank 1 receives 4 f32"));
  }
  Request recv;
  std::vector<float> three(3);
  recv.data = three;
  CHECK(fits({.dtype = DType::f32, .count = 3}, recv));
  CHECK_FALSE(fits({.dtype = DType::f32, .count = 4}, recv));
  CHECK_FALSE(fits({.dtype = DType::f64, .count = 3}, recv));
}
