// The bodies of model/loader.hpp.
#pragma once

#include "yotta/model/loader.hpp"

namespace yotta {

YOTTA_INLINE Loader::Loader(Draw draw, int64_t first, int64_t last, int64_t depth, Where where)
    : draw_(std::move(draw)), next_read_(first), next_taken_(first), last_(last), depth_(depth) {
  if (depth < 1) fail(where, "a loader that reads {} batches ahead; it reads 1 at least", depth);
  thread_ = std::thread([this] { run(); });
}

YOTTA_INLINE Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

YOTTA_INLINE void Loader::run() {
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

YOTTA_INLINE Batch Loader::next(Where where) {
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

YOTTA_INLINE int64_t Loader::read() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

YOTTA_INLINE void Loader::wait_until_full() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return std::ssize(queue_) >= std::min(depth_, last_ - next_taken_); });
}

}  // namespace yotta
