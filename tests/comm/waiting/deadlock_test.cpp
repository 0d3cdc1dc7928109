#include "yotta/comm/waiting/deadlock.hpp"

#include <atomic>
#include <chrono>
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
using yotta_test::here;
using yotta_test::on_threads;
using yotta_test::own_algorithm;
using yotta_test::waits_on_device;

namespace {
const RankWait runs{RankWait::State::runs, {}};
const RankWait returned{RankWait::State::returned, {}};
StrandWait needs(std::vector<int> ranks) {
  StrandWait wait;
  wait.needs = std::move(ranks);
  return wait;
}
RankWait waits(std::vector<StrandWait> strands) {
  return {RankWait::State::waits, std::move(strands)};
}
}  // namespace

TEST_CASE("a rank that waits for one that runs is alive; one in a circle is not") {
  CHECK(find_alive({runs, waits({needs({0})})}) == std::vector<bool>{true, true});
  CHECK(find_alive({waits({needs({1})}), waits({needs({0})}), runs}) ==
        std::vector<bool>{false, false, true});
  CHECK(find_alive({waits({needs({1})}), returned}) == std::vector<bool>{false, true});
  // A chain to a rank that runs, given in the order that needs the most rounds.
  CHECK(find_alive({waits({needs({1})}), waits({needs({2})}), waits({needs({3})}), runs}) ==
        std::vector<bool>(4, true));
}

TEST_CASE("a strand that waits for several needs them all") {
  CHECK(find_alive({waits({needs({1, 2})}), runs, returned}) ==
        std::vector<bool>{false, true, true});
  CHECK(find_alive({waits({needs({1, 2})}), runs, waits({needs({1})})}) ==
        std::vector<bool>(3, true));
}

TEST_CASE("a fiber keeps others alive even if the main code of its rank is dead") {
  StrandWait ready = needs({});
  ready.ready = true;
  // Rank 0's main waits for 2, which has returned; its fiber can go on and serve rank 1.
  CHECK(find_alive({waits({needs({2}), ready}), waits({needs({0})}), returned}) ==
        std::vector<bool>{false, true, true});
}

TEST_CASE("main code that waits for a Work is as alive as the Work") {
  StrandWait on_work = needs({});
  on_work.strand = 1;
  CHECK(find_alive({waits({on_work, needs({1})}), runs}) == std::vector<bool>{true, true});
  CHECK(find_alive({waits({on_work, needs({1})}), returned}) == std::vector<bool>{false, true});
}

TEST_CASE("a rank that only asks may yet serve others, but what it asks for may be dead") {
  const auto asks = [](std::vector<int> ranks) {
    return RankWait{RankWait::State::asks, {needs(std::move(ranks))}};
  };
  CHECK(find_alive({asks({1}), waits({needs({0})})}) == std::vector<bool>{true, true});
  CHECK(find_alive({asks({1}), returned}) == std::vector<bool>{false, true});
  CHECK(find_alive({asks({1}), returned, waits({needs({0})})}) ==
        std::vector<bool>{false, true, true});
}

TEST_CASE("the circle is written out without what only leads to it") {
  const std::vector<RankWait> ranks = {waits({needs({1})}), waits({needs({2})}),
                                       waits({needs({1})})};
  CHECK(describe_chain(ranks, find_alive(ranks), 0) == "1 waits for 2 waits for 1");
  const std::vector<RankWait> chain = {waits({needs({1})}), waits({needs({2})}), returned};
  CHECK(describe_chain(chain, find_alive(chain), 0) ==
        "0 waits for 1 waits for 2, which has returned");
}

TEST_CASE("a circle of two, of all, and of one, on ranks") {
  for (int p : yotta_test::ranks_here({1, 2, 3, 4, 8})) {
    CAPTURE(p);
    std::string circle = "deadlock: rank 0";
    for (int r = 1; r <= p; ++r) circle += " waits for " + std::to_string(r % p);
    const std::string text = error_of<Deadlock>(p, [&](Communicator& world) {
      std::vector<float> x(5);
      world.recv(x, (world.rank() + 1) % world.size(), 3);
    });
    const std::string place = here(-2), recv = "recv of 5 f32";
    check_says(text, {circle.c_str(), place.c_str(),
                      (waits_on_device() ? recv : recv + " with tag 3 at").c_str()});
  }
}

TEST_CASE("sends that no rank can receive yet are a circle when sends are not buffered") {
  if (!enough_ranks(2) || waits_on_device()) return;
  auto body = [](Communicator& world) {
    std::vector<double> x(2), y(2);
    const int other = 1 - world.rank();
    world.send(x, other);
    world.recv(y, other);
  };
  run_ranks(2, body);
  RunOptions unbuffered;
  unbuffered.buffered_sends = false;
  check_says(error_of<Deadlock>(2, body, unbuffered),
             {"rank 0 waits for 1 waits for 0", "send of 2 f64 with tag 0 at",
              "try: use send_recv, or let some"});
}

TEST_CASE("a circle in a subgroup is found while others still work") {
  if (!enough_ranks(4) || !on_threads()) return;
  std::atomic<bool> told = false;
  const std::string text = error_of<Deadlock>(4, [&](Communicator& world) {
    std::vector<float> x(1);
    if (world.rank() >= 2) {
      try {
        world.recv(x, 5 - world.rank());
      } catch (const Deadlock&) {
        told = true;
        throw;
      }
    }
    while (!told) std::this_thread::yield();  // ranks 0 and 1 are busy and not to blame
  });
  check_says(text, {"rank 2 waits for 3 waits for 2"});
  CHECK(text.find("rank 0") == std::string::npos);
}

TEST_CASE("waiting for a rank that has returned") {
  if (!enough_ranks(3)) return;
  const std::string text = error_of<Deadlock>(3, [](Communicator& world) {
    std::vector<int32_t> x(1);
    if (world.rank() == 1) world.recv(x, 2);  // may be found before rank 0 waits for it in turn
    if (world.rank() == 0) world.recv(x, 1);
  });
  check_says(text, {"waits for 2, which has returned", "rank 2 has returned",
                    waits_on_device() ? "recv of 1 i32"
                                      : "recv of 1 i32 with tag 0 at deadlock_test.cpp"});
}

TEST_CASE("the wrong tag is pointed out") {
  if (!enough_ranks(2) || waits_on_device()) return;
  const std::string text = error_of<Deadlock>(2, [](Communicator& world) {
    std::vector<float> x(1);
    if (world.rank() == 1) world.send(x, 0, 7);
    if (world.rank() == 0) world.recv(x, 1, 8);
  });
  check_says(text,
             {on_threads() ? "rank 1 has sent tag 7 at deadlock_test.cpp" : "rank 1 has sent tag 7",
              "rank 0 waits for tag 8"});
}

TEST_CASE("a collective that one rank does not call") {
  if (!enough_ranks(3) || waits_on_device()) return;
  for (const Algorithm algorithm : {Algorithm::dissemination, own_algorithm()}) {
    const std::string text = error_of<Deadlock>(3, [&](Communicator& world) {
      std::vector<float> x(1);
      if (world.rank() < 2) world.barrier({algorithm});
      if (world.rank() == 2) world.recv(x, 1);
    });
    check_says(text, {"waits for", "barrier", "recv of 1 f32"});
  }
}

TEST_CASE("works: the circle goes through fibers, and the table names call and wait") {
  if (!enough_ranks(2) || waits_on_device()) return;
  const std::string text = error_of<Deadlock>(2, [](Communicator& world) {
    std::vector<float> x(4), y(1);
    if (world.rank() == 1) world.recv(y, 0);
    Work work = world.all_reduce_async(x);
    work.wait();
    if (world.rank() == 0) world.send(y, 1);
  });
  check_says(text, {"rank 0 waits for 1 waits for 0", "all_reduce of 4 f32", "waited for at"});
}

TEST_CASE("collectives of two communicators in different order") {
  if (!enough_ranks(2) || waits_on_device()) return;
  const std::string text = error_of<Deadlock>(2, [](Communicator& world) {
    Communicator other = world.split(0, world.rank());
    std::vector<float> x(4);
    (world.rank() == 0 ? world : other).barrier();
    (world.rank() == 0 ? other : world).barrier();
  });
  check_says(text, {"rank 0 waits for 1 waits for 0", "on the communicator of ranks 0 1 at",
                    "same order on all communicators"});
}

namespace {
// A program that never calls wait().
void ask_until_done(Work& work) {
  const GiveUp late;
  while (!work.done()) {
    if (late) throw std::runtime_error("has asked in vain");
    std::this_thread::yield();
  }
}
}  // namespace

TEST_CASE("a rank that only asks done() hears of a circle, as one that waits does") {
  if (!enough_ranks(2)) return;
  for (const bool all_ask : {false, true}) {
    const std::string text = error_of<Deadlock>(2, [&](Communicator& world) {
      std::vector<float> x(5), y(1);
      const int other = 1 - world.rank();
      Work work = world.recv_async(x, other, 3);
      if (!all_ask && world.rank() == 1) work.wait();
      ask_until_done(work);
      world.send(x, other, 3);
    });
    check_says(text, {"rank 0 waits for 1 waits for 0", "recv of 5 f32 ",
                      waits_on_device() ? "" : "with tag 3 at", ", waited for at "});
  }
}

TEST_CASE("a rank that asks done() beside other work hears that its Work can never be done") {
  if (!enough_ranks(2) || waits_on_device()) return;
  const std::string text = error_of<Deadlock>(2, [](Communicator& world) {
    std::vector<float> x(5);
    if (world.rank() == 1) return;
    Work work = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
    double sum = 0;
    const GiveUp late;
    while (!work.done() && !late)
      for (int i = 0; i < 1000000; ++i) sum += 1.0 / (1 + sum);
    CHECK(sum > 0);
  });
  check_says(text, {"rank 0 waits for 1, which has returned", "all_reduce of 5 f32"});
}

TEST_CASE("a rank may stop asking done(): that is no circle") {
  if (!enough_ranks(2)) return;
  run_ranks(2, [](Communicator& world) {
    std::vector<int32_t> x = {world.rank()}, stop(1);
    if (world.rank() == 1) {
      world.recv(x, 0);
      world.send(x, 0, 1);
      return;
    }
    Work stopped = world.recv_async(stop, 1, 1);
    double sum = 0;
    const auto begin = std::chrono::steady_clock::now();
    while (!stopped.done() &&
           std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1500))
      for (int i = 0; i < 1000000; ++i) sum += 1.0 / (1 + sum);
    CHECK(sum > 0);
    world.send(x, 1);
    stopped.wait();
    CHECK(stop[0] == 0);
  });
}
