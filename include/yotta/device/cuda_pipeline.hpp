// cuda::pipeline: CUDA C++'s own words for copies that a thread starts and does not wait for.
//
//     cp_async.hpp               cuda::pipeline of one thread
//     cp_async<16>(to, from)     cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe)
//     cp_async_commit()          pipe.producer_commit()
//     cp_async_wait<n>()         cuda::pipeline_consumer_wait_prior<n>(pipe), pipe.consumer_wait()
//
// producer_acquire() and consumer_release() say where a stage's copies begin and its use ends. For
// one thread neither does anything; with a pipeline that a block shares they wait.
//
// With nvcc this is <cuda/pipeline>. On the CPU these words stand on cp_async.hpp, so what is read
// too early is found here as well.
// Contract: as cp_async.hpp; the alignment is the size, 4, 8 or 16 bytes.
// Reference: CUDA C++ Programming Guide, "Asynchronous Data Copies using cuda::pipeline".
#pragma once

#if defined(__CUDACC__)

#include <cuda/pipeline>

#else

#include <cstddef>

#include "yotta/device/cp_async.hpp"

namespace cuda {
inline namespace YOTTA_DEVICE_BUILD {

enum thread_scope {
  thread_scope_system,
  thread_scope_device,
  thread_scope_block,
  thread_scope_thread
};

template <thread_scope scope>
class pipeline {
 public:
  void producer_acquire() {}
  void producer_commit() {
    yotta::cp_async_commit();
    ++committed_;
  }
  // For the oldest stage that nobody has waited for.
  void consumer_wait() {
    if (waited_ < committed_) ++waited_;
    yotta::emulator::wait_for_async_copies(committed_ - waited_);
  }
  void consumer_release() {}

 private:
  int committed_ = 0, waited_ = 0;  // stages
};
inline pipeline<thread_scope_thread> make_pipeline() { return {}; }

template <size_t alignment>
struct aligned_size_t {
  size_t value;
  explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
};

template <size_t alignment>
void memcpy_async(void* to, const void* from, aligned_size_t<alignment> size,
                  pipeline<thread_scope_thread>& /*pipe*/,
                  yotta::Where where = yotta::Where::current()) {
  yotta::cp_async<alignment>(to, from, static_cast<int>(size.value), where);
}

// Waits for all that was committed but the last `prior` times.
template <int prior>
void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>& /*pipe*/) {
  yotta::cp_async_wait<prior>();
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace cuda

#endif
