// The bodies of core/cpu/thread_pool.hpp.
#pragma once

#include "yotta/core/cpu/thread_pool.hpp"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace yotta {

YOTTA_INLINE ThreadPool& ThreadPool::instance() {
  // Never destroyed: helpers sleep on its members until the process ends.
  static ThreadPool* pool = new ThreadPool;
  return *pool;
}

YOTTA_INLINE void ThreadPool::post(Job& job) {
  const std::lock_guard lock(mutex_);
  job.next = std::exchange(jobs_, &job);
  int wanted = 0;
  for (const Job* open = jobs_; open != nullptr; open = open->next) wanted += open->threads - 1;
  try {
    for (; helpers_ < wanted; ++helpers_) std::thread([this] { help(); }).detach();
  } catch (const std::system_error&) {
    // The system gives no more threads: those there are, and the caller, do the work.
  }
  posted_.fetch_add(1, std::memory_order_release);
  if (sleeping_ > 0) wake_.notify_all();
}

YOTTA_INLINE void ThreadPool::close(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    Job** link = &jobs_;
    while (*link != &job) link = &(*link)->next;
    *link = job.next;
  }
  const auto has_left = [&] { return job.busy.load() == 0; };
  for (int looked = 0; looked < 64; ++looked) {
    if (has_left()) return;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  ++closing_;
  left_.wait(lock, has_left);
  --closing_;
}

// The caller counts itself before it looks at `busy`, and this looks for callers afterwards: one of
// the two sees the other.
YOTTA_INLINE void ThreadPool::leave(Job& job) {
  job.busy.fetch_sub(1);
  if (closing_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  left_.notify_all();
}

YOTTA_INLINE auto ThreadPool::join(int& index) -> Job* {
  for (Job* job = jobs_; job != nullptr; job = job->next)
    if (job->joined < job->threads) {
      index = job->joined++;
      job->busy.fetch_add(1, std::memory_order_relaxed);
      return job;
    }
  return nullptr;
}

[[noreturn]] YOTTA_INLINE void ThreadPool::help() {
  for (;;) {
    int index = 0;
    Job* job = nullptr;
    const uint64_t seen = posted_.load(std::memory_order_acquire);
    {
      const std::lock_guard lock(mutex_);
      job = join(index);
    }
    if (job == nullptr) {
      rest(seen);
      continue;
    }
    job->call(job->work, index);
    leave(*job);
  }
}

YOTTA_INLINE void ThreadPool::rest(uint64_t seen) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds longest(5), long_look(1);
  const auto begin = Clock::now();
  for (auto last = begin, now = begin; now - begin < longest; last = now) {
    if (posted_.load(std::memory_order_acquire) != seen) return;
    std::this_thread::yield();
    now = Clock::now();
    if (now - last > long_look) break;  // another program has had the core: it needs it
  }
  std::unique_lock lock(mutex_);
  ++sleeping_;
  wake_.wait(lock, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
  --sleeping_;
}

}  // namespace yotta
