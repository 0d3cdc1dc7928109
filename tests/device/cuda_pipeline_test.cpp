// nvcc compiles this file too: on a GPU it tests the same words.
#include "yotta/device/cuda_pipeline.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

// Two stages are committed. `first` is what lies in shared memory when the wait for all but one has
// ended, `both` when there is none left.
__global__ void two_stages(const uint32_t* x, uint32_t* first, uint32_t* both) {
  __shared__ __align__(16) uint32_t tile[256];
  const int at = 4 * static_cast<int>(threadIdx.x);
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  for (int stage = 0; stage < 2; ++stage) {
    pipe.producer_acquire();
    cuda::memcpy_async(tile + 128 * stage + at, x + 128 * stage + at, cuda::aligned_size_t<16>(16),
                       pipe);
    pipe.producer_commit();
  }
  cuda::pipeline_consumer_wait_prior<1>(pipe);
  for (int i = at; i < at + 4; ++i) first[i] = tile[i];
  pipe.consumer_release();
  cuda::pipeline_consumer_wait_prior<0>(pipe);
  for (int i = at; i < at + 4; ++i) both[i] = tile[i] + tile[128 + i];
  pipe.consumer_release();
}

}  // namespace

TEST_CASE("a wait that leaves one stage has the first, a wait that leaves none has both") {
  std::vector<uint32_t> x(256), early(128), sums(128);
  for (uint32_t i = 0; i < 256; ++i) x[i] = 3 * i + 1;
  for (uint32_t i = 0; i < 128; ++i) early[i] = x[i], sums[i] = x[i] + x[128 + i];
  const DeviceArray<uint32_t> in(x);
  DeviceArray<uint32_t> first(128), both(128);
  launch(two_stages, 1, 32, 0, nullptr, in.data(), first.data(), both.data());
  CHECK(first.to_host() == early);
  CHECK(both.to_host() == sums);
}
