// How long tests wait: for what must come, so long that a slow machine makes no test fail; for what
// must not come in time, a short time, which grows where the machine was too slow.
//
//     CHECK(comes([&] { return file_exists(); }));            looks again and again, for five
//                                                             minutes
//     const GiveUp late;
//     while (!work.done() && !late) std::this_thread::yield();
//     options.timeout = longest_wait;                         where another end than a time-out is
//                                                             expected
//     const double seconds = seconds_enough(0.3, [&](double seconds) { ... return all_came; });
#pragma once

#include <chrono>
#include <thread>

namespace yotta_test {

// Seconds. It exists so that a test that fails has an end; ctest's limits are longer.
inline constexpr double longest_wait = 300;

// True once the longest wait is over.
class GiveUp {
 public:
  explicit operator bool() const {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin_;
    return waited.count() > longest_wait;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Looks every millisecond until it is done. Returns whether it is.
template <class Done>
bool comes(Done done) {
  for (const GiveUp late; !late;) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done();
}

// Calls attempt(seconds), at first with the seconds that a usual machine needs, then with four
// times as many, until it returns that they were enough. Returns the last seconds: checks follow.
template <class Attempt>
double seconds_enough(double seconds, Attempt attempt) {
  while (!attempt(seconds) && 4 * seconds < longest_wait) seconds *= 4;
  return seconds;
}

}  // namespace yotta_test
