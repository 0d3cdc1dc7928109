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
  while (job.busy.load(std::memory_order_acquire) > 0) std::this_thread::yield();
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
    job->busy.fetch_sub(1, std::memory_order_release);
  }
}

YOTTA_INLINE void ThreadPool::rest(uint64_t seen) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  while (std::chrono::steady_clock::now() < until) {
    if (posted_.load(std::memory_order_acquire) != seen) return;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  ++sleeping_;
  wake_.wait(lock, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
  --sleeping_;
}

}  // namespace yotta
