#include "yotta/core/cpu/thread_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/thread_state.hpp"

using namespace yotta;

namespace {

// Counts to `tasks` with a shared counter; every task must be seen once, indices stay below
// `threads`.
bool counts_all(int threads, int tasks) {
  std::atomic<int> next{0};
  std::vector<int> seen(static_cast<size_t>(tasks), 0);
  std::vector<std::atomic<int>> entered(static_cast<size_t>(threads));
  ThreadPool::instance().run(threads, [&](int index) {
    ++entered[static_cast<size_t>(index)];
    for (int task; (task = next++) < tasks;) ++seen[static_cast<size_t>(task)];
  });
  for (const int times : seen)
    if (times != 1) return false;
  for (const auto& times : entered)
    if (times > 1) return false;
  return entered[0] == 1;
}

}  // namespace

TEST_CASE("all tasks are done once, whoever comes to help") {
  for (int i = 0; i < 200; ++i)
    for (const int threads : {1, 2, 3, 8}) CHECK_UNARY(counts_all(threads, i));
}

TEST_CASE("helpers do come: two threads that wait for each other finish") {
  std::atomic<int> here{0};
  ThreadPool::instance().run(2, [&](int) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  CHECK(here == 2);
}

TEST_CASE("one thread or none asked for: only the caller, as index 0") {
  for (const int threads : {0, 1}) {
    int calls = 0;
    ThreadPool::instance().run(threads, [&](int index) { calls += 1 + index; });
    CHECK(calls == 1);
  }
}

TEST_CASE("several callers at once, and a job inside a job") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) wrong += !counts_all(3, i);
    });
  for (auto& caller : callers) caller.join();
  ThreadPool::instance().run(3, [&](int) { wrong += !counts_all(2, 20); });
  CHECK(wrong == 0);
}

TEST_CASE("a caller whose helper is not done sleeps, and goes on when it has left") {
  const long caller = yotta_test::this_thread_number();
  std::atomic<int> here{0};
  std::atomic<bool> slept{false};
  for (int i = 0; i < 3; ++i) {
    here = 0, slept = false;
    ThreadPool::instance().run(2, [&](int index) {
      ++here;
      while (here < 2) std::this_thread::yield();
      if (index == 1) slept = yotta_test::falls_asleep(caller);
    });
    CHECK(slept);
  }
}
