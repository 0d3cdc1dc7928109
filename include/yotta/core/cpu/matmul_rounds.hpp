// Rounds for matmul: who packs what and multiplies what, when, so that no thread stands still.
//
// Each round needs a packed block of B. If all threads packed, then all multiplied, each of the two
// phases would end with threads waiting for the slowest. So a block is packed while the one before
// it is multiplied:
//
//     pack 0 | multiply 0, first half | pack 1 | multiply 0, second half
//            | multiply 1, first half | pack 2 | multiply 1, second half | ...
//
// Tasks are handed out in this order to whichever thread is free. Each waits only for tasks that
// were handed out before it, so there is always one that can go on:
//     multiply   its block of B is packed; the same piece of C was written in the round before
//     pack       the buffer is free: every multiply of the round that read it last has ended
// Whoever waits looks a few times, and then sleeps until the counter has moved: on a busy machine
// the thread that it waits for needs the core.
// Cost: two blocks of B in memory instead of one, and an atomic counter or two a task. One thread
// alone packs and multiplies in turn, with one buffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "yotta/core/cpu/thread_pool.hpp"

namespace yotta {

namespace detail {

// How often a thread looks, giving way in between, before it sleeps: some 20 microseconds.
inline constexpr int looks_before_sleep = 64;

inline void wait_for(const std::atomic<int>& count, int wanted) {
  for (int looked = 0; count.load(std::memory_order_acquire) < wanted; ++looked)
    if (looked < looks_before_sleep)
      std::this_thread::yield();
    else if (const int seen = count.load(std::memory_order_acquire); seen < wanted)
      count.wait(seen, std::memory_order_acquire);
}
inline void set_to(std::atomic<int>& count, int value) {
  count.store(value, std::memory_order_release);
  count.notify_all();
}
inline void add_one(std::atomic<int>& count) {
  count.fetch_add(1, std::memory_order_release);
  count.notify_all();
}

}  // namespace detail

// Blocks of packed B that are alive at once.
constexpr int64_t pack_buffers(int threads) { return threads > 1 ? 2 : 1; }

// Runs body.pack(round, task) for task < packs, and body.multiply(round, task, thread) for task <
// multiplies, in every round, on up to `threads` threads.
template <class Body>
void run_rounds(int threads, int64_t rounds, int64_t packs, int64_t multiplies, Body& body) {
  const int64_t buffers = pack_buffers(threads), each = packs + multiplies;
  const int64_t first_half = buffers > 1 ? multiplies / 2 : multiplies;
  std::vector<std::atomic<int>> packed(rounds), multiplied(rounds), pieces(multiplies);
  std::atomic<int64_t> next{0};
  const int all_packed = static_cast<int>(packs), all_multiplied = static_cast<int>(multiplies);
  const auto pack = [&](int64_t round, int64_t task) {
    if (round >= rounds) return;
    if (round >= buffers) detail::wait_for(multiplied[round - buffers], all_multiplied);
    body.pack(round, task);
    detail::add_one(packed[round]);
  };
  const auto multiply = [&](int64_t round, int64_t task, int thread) {
    detail::wait_for(packed[round], all_packed);
    detail::wait_for(pieces[task], static_cast<int>(round));
    body.multiply(round, task, thread);
    detail::set_to(pieces[task], static_cast<int>(round + 1));
    detail::add_one(multiplied[round]);
  };
  ThreadPool::instance().run(threads, [&](int thread) {
    for (;;) {
      const int64_t t = next.fetch_add(1, std::memory_order_relaxed) - packs;
      if (t < 0) {
        pack(0, t + packs);
        continue;
      }
      const int64_t round = t / each, task = t % each;
      if (round >= rounds) return;
      if (task < first_half)
        multiply(round, task, thread);
      else if (task < first_half + packs)
        pack(round + 1, task - first_half);
      else
        multiply(round, task - packs, thread);
    }
  });
}

}  // namespace yotta
