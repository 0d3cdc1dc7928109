// Loader: batches that are read while the model trains.
//
//     without         │ read 0 │ step 0 │ read 1 │ step 1 │
//     loader thread   │ read 0 │ read 1 │ read 2 │        waits: the queue is full
//     training        wait     │ step 0 │ step 1 │ step 2 │
//
//     loader ──► [ batch 3 │ batch 4 ] ──► training           depth 2
//
// If reading takes less time than a step, only the first batch is waited for. If the disk is
// slower, training waits in next(). If training is slower, the loader waits before it reads what
// there is no room for (back-pressure): memory is bounded by depth + 1 batches, not by the run.
//
// Exact resume: a batch is known by its step alone, and batches leave in the order of their steps.
// So a run that goes on at step 700 makes its loader with first = 700, and what was in the queue of
// the run before is drawn again. Nothing else is saved.
//
// Contract: `draw` is called by the loader's thread alone, never twice at once. next() throws what
// `draw` has thrown, when that step's turn comes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "yotta/model/text.hpp"

namespace yotta {

class Loader {
 public:
  using Draw = std::function<Batch(int64_t step)>;

  // Reads the batches of steps first, first + 1, ... to last - 1; `depth` of them wait at most.
  Loader(Draw draw, int64_t first, int64_t last, int64_t depth, Where where = Where::current());
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batch of the next step. Waits for it if it is not there yet.
  Batch next(Where where = Where::current());

  // Batches that have been read so far, and how often next() had to wait.
  int64_t read() const;
  int64_t waits() const { return waits_; }
  // Returns when the loader has nothing to do: the queue is full, or all has been read.
  void wait_until_full();

 private:
  struct Item {
    Batch batch;
    std::exception_ptr error;
  };
  void run();
  bool is_full() const { return std::ssize(queue_) >= depth_ || next_read_ >= last_; }

  Draw draw_;
  int64_t next_read_, next_taken_, last_, depth_, read_ = 0, waits_ = 0;
  bool stops_ = false;
  std::deque<Item> queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // the last member: it starts when all others are there
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/loader.ipp"
#endif
