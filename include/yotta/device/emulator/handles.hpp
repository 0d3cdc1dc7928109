// Handles: what a program holds of the emulator's streams, events and graphs, and whether it is
// still there.
//
//     create    h = new stream          living: h
//     destroy   h                       kept, and no longer living: a late use is found
//
// One that is destroyed is kept until 64 more have been, so that the next one has another address,
// and a program that uses the old one does not get the new one in its place.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace yotta {

template <class T>
class Handles {
 public:
  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    for (T* each : living_) delete each;
  }

  T* add(std::unique_ptr<T> made) {
    T* const handle = made.release();
    living_.insert(handle);
    in_order_.push_back(handle);
    return handle;
  }
  // False if it was not living.
  bool destroy(T* handle) {
    if (living_.erase(handle) == 0) return false;
    std::erase(in_order_, handle);
    dead_.emplace_back(handle);
    if (dead_.size() > most_dead) dead_.pop_front();
    return true;
  }
  bool living(T* handle) const { return living_.count(handle) > 0; }
  bool empty() const { return living_.empty(); }
  // In the order in which they were made: addresses differ from run to run.
  auto begin() const { return in_order_.begin(); }
  auto end() const { return in_order_.end(); }

 private:
  static constexpr size_t most_dead = 64;
  std::set<T*> living_;
  std::vector<T*> in_order_;
  std::deque<std::unique_ptr<T>> dead_;
};

}  // namespace yotta
