// For tests that nvcc compiles too: how many kernels were launched. Only the emulator counts them.
#pragma once

#include <cstdint>

#if !defined(__CUDACC__)
#include "yotta/device/emulator/stream_queue.hpp"
#endif

namespace yotta_test {

class LaunchCount {
 public:
  // Were so many launched since this was made? On a GPU nobody knows: true.
  bool is([[maybe_unused]] uint64_t count) const {
#if defined(__CUDACC__)
    return true;
#else
    return yotta::StreamQueue::instance().launches == before_ + count;
#endif
  }

 private:
#if !defined(__CUDACC__)
  uint64_t before_ = yotta::StreamQueue::instance().launches;
#endif
};

}  // namespace yotta_test
