// ThreadPool: helper threads that any rank of this process may use and never has to wait for.
//
// A matmul lasts from microseconds to milliseconds, so starting threads for it would cost more than
// they bring; and on a machine where something else runs too, a helper may get its core late, so
// waiting for it would cost more still. Therefore the caller does the work itself, and helpers join
// while there is some left:
//
//     caller   post job ──▶ work(0) ─────────────────────▶ close job, wait for those who came:
//                                                          a few looks, then asleep
//     helper             wakes, joins ──▶ work(1) ──▶ leaves, stays awake a moment for the next job
//     helper                         still asleep: the job is closed before it comes
//
// Contract: `work(index)` takes tasks from a shared counter until none is left, so it is right
// whether one thread runs it or all; index is 0 for the caller, then 1, 2, ... below `threads`,
// each once a job. It must not throw. Helpers are started as they are first wanted and live as long
// as the process.
// Cost: about a microsecond a job when the helpers are awake. One that sleeps may come milliseconds
// late, since a scheduler first lets it wait on the caller's own core; so helpers stay awake for
// 5 ms.
// Why not an OpenMP region: it ends when its last thread has come, and GCC's runtime spins for that
// without giving way. With other programs running on the same two cores, a 256 x 256 matmul took
// 8 ms with OpenMP and 0.2 ms with this pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "yotta/core/system/build.hpp"

namespace yotta {

class ThreadPool {
 public:
  static ThreadPool& instance();

  // Runs work(0) here and work(1) to work(threads - 1) on helpers that are free; returns when all
  // who came are done.
  template <class Work>
  void run(int threads, const Work& work) {
    if (threads <= 1) return work(0);
    Job job{[](const void* w, int index) { (*static_cast<const Work*>(w))(index); }, &work,
            threads};
    post(job);
    work(0);
    close(job);
  }

 private:
  struct Job {
    void (*call)(const void* work, int index);
    const void* work;
    int threads;                // at most so many, the caller included
    int joined = 1;             // so many so far; under mutex_
    std::atomic<int> busy = 0;  // helpers inside call
    Job* next = nullptr;        // jobs of other callers, older
  };

  void post(Job& job);
  void close(Job& job);
  // A job with room, joined; null if there is none. Under mutex_.
  Job* join(int& index);
  // The job may end as soon as this helper is out of it.
  void leave(Job& job);
  [[noreturn]] void help();
  // Until another job is posted: first awake but giving way to everybody, then asleep.
  void rest(uint64_t seen);

  std::mutex mutex_;
  std::condition_variable wake_, left_;
  Job* jobs_ = nullptr;  // open jobs, newest first
  int helpers_ = 0;
  int sleeping_ = 0;
  std::atomic<int> closing_ = 0;  // callers that sleep until their helpers have left
  std::atomic<uint64_t> posted_{0};
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/cpu/impl/thread_pool.ipp"
#endif
