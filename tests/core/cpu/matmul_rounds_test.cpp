#include "yotta/core/cpu/matmul_rounds.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "support/thread_state.hpp"

using namespace yotta;

namespace {

// Tasks that take their time, and count how often one began before what it needs had ended.
struct SlowRounds {
  static constexpr int64_t rounds = 10, packs = 2, multiplies = 3, buffers = pack_buffers(3);
  std::atomic<int64_t> packed[rounds] = {}, multiplied[rounds] = {}, piece[multiplies] = {};
  std::atomic<int64_t> early{0};

  void pack(int64_t round, int64_t task) {
    if (round >= buffers) early += multiplied[round - buffers] < multiplies;
    if (task == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++packed[round];
  }
  void multiply(int64_t round, int64_t task, int) {
    early += packed[round] < packs || piece[task] != round;
    if (task != 1) std::this_thread::sleep_for(std::chrono::milliseconds(task == 0 ? 3 : 1));
    ++piece[task];
    ++multiplied[round];
  }
};

}  // namespace

TEST_CASE("a task begins when its block of B is packed, its piece of C written, its buffer free") {
  SlowRounds slow;
  run_rounds(3, SlowRounds::rounds, SlowRounds::packs, SlowRounds::multiplies, slow);
  CHECK(slow.early == 0);
  for (const auto& count : slow.packed) CHECK(count == SlowRounds::packs);
  for (const auto& count : slow.multiplied) CHECK(count == SlowRounds::multiplies);
}

TEST_CASE("who waits for a counter sleeps until it is there, not until it has moved") {
  std::atomic<int> count{0};
  std::atomic<long> waiter{0};
  std::thread waits([&] {
    waiter = yotta_test::this_thread_number();
    yotta::detail::wait_for(count, 2);
  });
  while (waiter == 0) std::this_thread::yield();
  for (int step = 0; step < 2; ++step) {
    CHECK(yotta_test::falls_asleep(waiter));
    yotta::detail::add_one(count);
  }
  waits.join();
  CHECK(count == 2);
}
