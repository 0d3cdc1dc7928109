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
  YOTTA_API Loader(Draw draw, int64_t first, int64_t last, int64_t depth,
                   Where where = Where::current());
  YOTTA_API ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batch of the next step. Waits for it if it is not there yet.
  YOTTA_API Batch next(Where where = Where::current());

  // Batches that have been read so far, and how often next() had to wait.
  YOTTA_API int64_t read() const;
  int64_t waits() const { return waits_; }
  // Returns when the loader has nothing to do: the queue is full, or all has been read.
  YOTTA_API void wait_until_full();

 private:
  struct Item {
    Batch batch;
    std::exception_ptr error;
  };
  YOTTA_API void run();
  bool is_full() const { return std::ssize(queue_) >= depth_ || next_read_ >= last_; }

  Draw draw_;
  int64_t next_read_, next_taken_, last_, depth_, read_ = 0, waits_ = 0;
  bool stops_ = false;
  std::deque<Item> queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // the last member: it starts when all others are there
};

#if YOTTA_BODIES_OF(model)
Loader::Loader(Draw draw, int64_t first, int64_t last, int64_t depth, Where where)
    : draw_(std::move(draw)), next_read_(first), next_taken_(first), last_(last), depth_(depth) {
  if (depth < 1) fail(where, "a loader that reads {} batches ahead; it reads 1 at least", depth);
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::run() {
  RankContext own;  // what waits in the queue is the loader's memory, not the rank's
  own.threads = 1;
  const ContextScope scope(own);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || !is_full(); });
    if (stops_) return;
    const int64_t step = next_read_++;
    lock.unlock();
    Item item;
    try {
      item.batch = draw_(step);
    } catch (...) {
      item.error = std::current_exception();
    }
    lock.lock();
    queue_.push_back(std::move(item));
    ++read_;
    changed_.notify_all();
  }
}

Batch Loader::next(Where where) {
  std::unique_lock lock(mutex_);
  if (next_taken_ >= last_)
    fail(where, "the batch of step {}; the last one is {}", next_taken_, last_ - 1);
  if (queue_.empty()) ++waits_;
  changed_.wait(lock, [&] { return !queue_.empty(); });
  Item item = std::move(queue_.front());
  queue_.pop_front();
  ++next_taken_;
  lock.unlock();
  changed_.notify_all();
  if (item.error) std::rethrow_exception(item.error);
  return std::move(item.batch);
}

int64_t Loader::read() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

void Loader::wait_until_full() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return std::ssize(queue_) >= std::min(depth_, last_ - next_taken_); });
}
#endif  // YOTTA_BODIES

}  // namespace yotta
