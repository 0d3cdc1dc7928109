#include "yotta/comm/failures.hpp"

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "support/longest_wait.hpp"
#include "support/rank_errors.hpp"
#include "support/ranks_here.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::enough_ranks;
using yotta_test::error_of;
using yotta_test::GiveUp;
using yotta_test::has_native;
using yotta_test::longest_wait;
using yotta_test::on_threads;
using yotta_test::waits_on_device;

TEST_CASE("the root cause comes out with its rank, the others get PeerFailed") {
  if (!enough_ranks(4)) return;
  std::atomic<int> told = 0;
  const std::string text = error_of<RankFailed>(4, [&](Communicator& world) {
    if (world.rank() == 3) throw std::runtime_error("the disk is full");
    try {
      for (;;) world.barrier();
    } catch (const PeerFailed& error) {
      check_says(error.what(), {"failures_test.cpp:", "rank 3 has failed", "the disk is full"});
      ++told;
      throw;
    }
  });
  check_says(text, {"rank 3 failed: the disk is full"});
  if (on_threads()) CHECK(told == 3);
}

TEST_CASE("a rank failure keeps the exception as it was thrown") {
  if (!enough_ranks(2)) return;
  try {
    run_ranks(2, [](Communicator& world) {
      if (world.rank() == 1) fail(Where::current(), "expected {} rows, got {}", 3, 4);
      world.barrier();
    });
    FAIL("nothing was thrown");
  } catch (const RankFailed& failed) {
    CHECK(failed.rank() == 1);
    CHECK_THROWS_AS(std::rethrow_exception(failed.cause()), Error);
    check_says(failed.what(), {"rank 1 failed: failures_test.cpp", "expected 3 rows, got 4"});
  }
}

TEST_CASE("what is not a std::exception comes out unchanged") {
  if (!enough_ranks(3) || !on_threads()) return;
  CHECK_THROWS_AS(run_ranks(3,
                            [](Communicator& world) {
                              if (world.rank() == 1) throw 42;
                              world.barrier();
                            }),
                  int);
}

TEST_CASE("who fails in every kind of call lets the others go") {
  if (!enough_ranks(3)) return;
  // What the other ranks are in when rank 0 throws: none may hang, all must end.
  using Wait = void (*)(Communicator&, std::vector<float>&);
  const Wait waits[] = {
      [](Communicator& w, std::vector<float>& x) { w.recv(x, 0); },
      [](Communicator& w, std::vector<float>& x) { w.all_reduce(x); },
      [](Communicator& w, std::vector<float>& x) {
        w.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
      },
      [](Communicator& w, std::vector<float>& x) { w.all_reduce_async(x).wait(); },
      [](Communicator& w, std::vector<float>& x) {
        Work work = w.broadcast_async(x, 1, {Algorithm::tree});
        w.recv(x, 0);
      },
      [](Communicator& w, std::vector<float>&) { w.split(0, 0); },
      [](Communicator& w, std::vector<float>& x) {
        Work work = w.recv_async(x, 0);
        work.wait();
      }};
  for (const Wait& wait : waits)
    for (const bool late : {false, true}) {
      if (late && !on_threads()) continue;
      std::atomic<int> inside = 0;
      const std::string text = error_of<RankFailed>(3, [&](Communicator& world) {
        std::vector<float> x(1000);
        if (world.rank() == 0) {
          while (late && inside < 2) std::this_thread::yield();
          throw std::runtime_error("enough");
        }
        ++inside;
        wait(world, x);
        world.barrier();
      });
      check_says(text, {"rank 0 failed: enough"});
    }
}

TEST_CASE("wrong ranks, tags, roots and data are the caller's error") {
  if (!enough_ranks(2)) return;
  auto wrong = [](auto call) {
    return error_of<RankFailed>(2, [&](Communicator& world) {
      std::vector<float> x(4);
      if (world.rank() == 0) call(world, x);
      world.barrier();
    });
  };
  using X = std::vector<float>;
  check_says(wrong([](Communicator& w, X& x) { w.send(x, 2); }),
             {"rank 0 failed", "the other rank is 2", "ranks 0 to 1"});
  check_says(wrong([](Communicator& w, X& x) { w.recv(x, -1); }), {"the other rank is -1"});
  check_says(wrong([](Communicator& w, X& x) { w.send(x, 1, -3); }),
             {"a tag is 0 or more, not -3"});
  check_says(wrong([](Communicator& w, X& x) { w.broadcast(x, 5); }), {"root is 5"});
  check_says(wrong([](Communicator& w, X&) { w.all_reduce(Data(nullptr, 4, DType::f32)); }),
             {"4 elements but no address"});
  check_says(wrong([](Communicator& w, X&) { w.all_reduce(Data(nullptr, -4, DType::f32)); }),
             {"negative count, -4"});
  check_says(wrong([](Communicator& w, X& x) { w.all_gather(x, x); }),
             {"in, this rank's chunk,", "has 4 elements; 2 are expected"});
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& world) {
                                    X x(4);
                                    world.all_reduce(x, ReduceOp::sum, {Algorithm::bruck});
                                  }),
             {"all_reduce has no algorithm called Bruck"});
}

TEST_CASE("mismatched collectives name what differs and both places") {
  if (!enough_ranks(2)) return;
  auto mismatch = [](auto zero, auto one) {
    return error_of<Mismatch>(2, [&](Communicator& world) {
      std::vector<float> x(16);
      std::vector<double> y(16);
      if (world.rank() == 0) zero(world, x, y);
      if (world.rank() == 1) one(world, x, y);
      world.barrier();
    });
  };
  using C = Communicator;
  using F = std::vector<float>;
  using D = std::vector<double>;
  auto sum = [](C& w, F& x, D&) { w.all_reduce(x); };
  check_says(mismatch(sum, [](C& w, F& x, D&) { w.broadcast(x, 1); }),
             {"same collectives in the same order", "rank 0: all_reduce of 16 f32, sum",
              "rank 1: broadcast of 16 f32, root 1", " at failures_test.cpp:"});
  check_says(mismatch(sum, [](C& w, F&, D& y) { w.all_reduce(y); }), {"16 f32", "16 f64"});
  check_says(mismatch(sum, [](C& w, F& x, D&) { w.all_reduce(Data(x).part(0, 15)); }),
             {"16 f32", "15 f32"});
  check_says(mismatch(sum, [](C& w, F& x, D&) { w.all_reduce(x, ReduceOp::max); }), {"sum", "max"});
  check_says(mismatch([](C& w, F& x, D&) { w.broadcast(x, 0); },
                      [](C& w, F& x, D&) { w.broadcast(x, 1); }),
             {"root 0", "root 1"});
  check_says(
      mismatch(sum, [](C& w, F& x, D&) { w.all_reduce(x, ReduceOp::sum, {Algorithm::ring}); }),
      {has_native() ? "native" : "recursive doubling", "ring"});
  check_says(mismatch([](C& w, F& x, D&) { w.all_reduce_async(x).wait(); },
                      [](C& w, F&, D&) { w.barrier(); }),
             {"all_reduce", "barrier"});
}

TEST_CASE("a message whose two sides differ names both") {
  if (!enough_ranks(2) || !on_threads()) return;
  for (const bool receiver_first : {false, true}) {
    std::atomic<bool> posted = false;
    const std::string text = error_of<Mismatch>(2, [&](Communicator& world) {
      std::vector<float> x(16), y(8);
      const bool first = receiver_first == (world.rank() == 1);
      while (!first && !posted) std::this_thread::yield();
      Work work = world.rank() == 0 ? world.send_async(x, 1) : world.recv_async(y, 0);
      posted = true;
      work.wait();
    });
    check_says(text, {"rank 0 sends 16 f32 at", "rank 1 receives 8 f32 at", "same count and type"});
  }
}

TEST_CASE("two sides that differ are a Mismatch at once, whatever else their ranks wait for") {
  if (!enough_ranks(2)) return;
  using Body = void (*)(Communicator&, size_t);
  const Body bodies[] = {[](Communicator& world, size_t n) {  // neither send is done
                           std::vector<float> x(n + 100 * static_cast<size_t>(world.rank())), y(x);
                           world.send_recv(x, 1 - world.rank(), y, 1 - world.rank());
                         },
                         [](Communicator& world, size_t n) {  // the other Work comes later
                           std::vector<float> x(n), y(n + 1), z(n);
                           if (world.rank() == 1) {
                             world.send_async(x, 0, 1).wait();
                             world.send_async(z, 0, 2).wait();
                             return;
                           }
                           Work later = world.recv_async(z, 1, 2),
                                wrong = world.recv_async(y, 1, 1);
                           later.wait();
                           wrong.wait();
                         }};
  for (const Body body : bodies)
    for (const size_t n : {size_t{4}, size_t{20000}})
      for (const bool buffered : {true, false}) {
        RunOptions options;
        options.buffered_sends = buffered;
        options.timeout = longest_wait;
        check_says(
            error_of<Mismatch>(
                2, [&](Communicator& world) { body(world, n); }, options),
            {"both sides of a message must name the same count and type", "at failures_test.cpp:"});
      }
}

TEST_CASE("time-out: the other rank lives, but does not come") {
  if (!enough_ranks(2) || !on_threads()) return;
  std::atomic<double> seconds = 0;
  std::atomic<bool> told = false;
  RunOptions options;
  options.timeout = 60;
  options.now = [&] { return seconds.load(); };
  const std::string text = error_of<Timeout>(
      2,
      [&](Communicator& world) {
        std::vector<float> x(3);
        if (world.rank() == 0)
          while (!told) seconds = seconds + 10;  // it is busy with something else
        try {
          world.recv(x, 0, 4);
        } catch (const Timeout&) {
          told = true;
          throw;
        }
      },
      options);
  check_says(text,
             {"rank 1 has waited for more than 60 s in recv of 3 f32", "RunOptions::timeout"});
}

TEST_CASE("time-out: who asks done() is told as who waits is") {
  if (!enough_ranks(2)) return;
  RunOptions options;
  options.timeout = 0.9;
  const std::string text = error_of<Timeout>(
      2,
      [&](Communicator& world) {
        std::vector<float> x(3);
        const GiveUp late;
        Work work = world.recv_async(x, 1 - world.rank(), 4);
        double sum = 0;
        while (!work.done() && !late)  // rank 1 is busy with something else until it hears of it
          for (int i = 0; world.rank() == 1 && i < 1000000; ++i) sum += 1.0 / (1 + sum);
        throw std::runtime_error(fmt::format("has asked in vain, {}", sum));
      },
      options);
  check_says(text, {"rank 0 has waited for more than 0.9 s in recv of 3 f32"});
}

TEST_CASE("who asks done() hears that another rank has failed") {
  if (!enough_ranks(2)) return;
  const std::string text = error_of<RankFailed>(2, [&](Communicator& world) {
    std::vector<float> x(3);
    if (world.rank() == 1) throw std::runtime_error("enough");
    Work work = world.recv_async(x, 1, 4);
    const GiveUp late;
    while (!work.done())
      if (late) throw std::runtime_error("has asked in vain");
  });
  check_says(text, {"rank 1 failed: enough"});
}

TEST_CASE("a failure that the rank catches is not thrown again, but its world is over") {
  if (!enough_ranks(2)) return;
  run_ranks(2, [](Communicator& world) {
    std::vector<float> x(1);
    CHECK_THROWS_AS(world.recv(x, 1 - world.rank()), Deadlock);
    CHECK_THROWS_AS(world.barrier(), Deadlock);
  });
}

TEST_CASE("a message that nobody received is an error of the run") {
  if (!enough_ranks(2) || waits_on_device()) return;
  const std::string text = error_of<CommError>(2, [](Communicator& world) {
    std::vector<float> x(3);
    if (world.rank() == 0) world.send(x, 1, 9);
  });
  check_says(text, {on_threads() ? "rank 0 sent 3 f32 with tag 9 to rank 1"
                                 : "rank 0 sent 12 bytes with tag 9 to rank 1",
                    "without receiving it", on_threads() ? "failures_test.cpp:" : "_errors.hpp:"});
}

TEST_CASE("a communicator after its world, of another rank, or of nobody") {
  if (!enough_ranks(2) || !on_threads()) return;
  Communicator leaked;
  std::vector<float> x(1);
  run_ranks(1, [&](Communicator& world) { leaked = world; });
  CHECK_THROWS_WITH_AS(leaked.all_reduce(x), doctest::Contains("world has ended"), Error);
  CHECK_THROWS_WITH_AS(Communicator().barrier(), doctest::Contains("is empty"), Error);
  check_says(error_of<RankFailed>(2,
                                  [&](Communicator& world) {
                                    if (world.rank() == 0) leaked = world;
                                    world.barrier();
                                    if (world.rank() == 1) leaked.barrier();
                                    world.barrier();  // rank 0 is still there
                                  }),
             {"belongs to its rank: rank 0's was used by another thread"});
}
