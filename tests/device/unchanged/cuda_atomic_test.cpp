#include "yotta/device/unchanged/cuda_atomic.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void operations(int* x, int* old) {
  const cuda::atomic_ref<int, cuda::thread_scope_device> ref(*x);
  old[0] = ref.fetch_add(5);
  old[1] = ref.fetch_sub(2, cuda::memory_order_relaxed);
  old[2] = ref.fetch_max(20);
  old[3] = ref.exchange(9, cuda::std::memory_order_acq_rel);
  int expected = 8;
  old[4] = ref.compare_exchange_strong(expected, 1);
  old[5] = expected;
  old[6] = ref.compare_exchange_weak(expected, 1);
  old[7] = ref.load(cuda::memory_order_acquire);
  ref.store(4);
  old[8] = ++cuda::atomic_ref<int>(*x);
}

// Under a lock that two orders take, by both functions and by both types.
template <bool Strong>
__global__ void counts_under_lock(int* lock, int* count) {
  const cuda::atomic_ref<int, cuda::thread_scope_device> ref(*lock);
  for (int expected = 0;; expected = 0) {
    const bool taken = Strong ? ref.compare_exchange_strong(expected, 1, cuda::memory_order_acquire,
                                                            cuda::memory_order_relaxed)
                              : ref.compare_exchange_weak(expected, 1, cuda::memory_order_acquire,
                                                          cuda::memory_order_relaxed);
    if (taken) break;
  }
  ++*count;
  ref.store(0, cuda::memory_order_release);
}
__global__ void turns(int* count) {
  __shared__ cuda::atomic<unsigned, cuda::thread_scope_block> turn;
  if (threadIdx.x == 0) turn = 0;
  __syncthreads();
  unsigned expected = threadIdx.x;
  while (!turn.compare_exchange_weak(expected, threadIdx.x + 1, cuda::memory_order_acq_rel,
                                     cuda::memory_order_acquire))
    expected = threadIdx.x;
  count[0] = static_cast<int>(threadIdx.x);
}

__global__ void operators(int* x, int* old) {
  cuda::atomic_ref<int> ref(*x);
  old[0] = ref++;
  old[1] = --ref;
  old[2] = ref += 5;
  old[3] = ref -= 2;
  old[4] = ref |= 64;
  old[5] = ref &= 72;
  old[6] = ref ^= 1;
  old[7] = ref--;
  old[8] = ref = 3;
  old[9] = ref;
}

// Block 0 writes and raises the flag, block 1 waits for it.
__global__ void hands_on(int* data, int* flag, int* got) {
  if (threadIdx.x > 0) return;
  const cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 0) {
    *data = 17;
    ready.store(1, cuda::memory_order_release);
  } else {
    while (ready.load(cuda::memory_order_acquire) == 0) continue;
    *got = *data;
  }
}

__global__ void rounds(int* sums) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int part[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  const auto me = threadIdx.x;
  part[me] = static_cast<int>(me);
  for (int i = 0; i < 5; ++i) {
    bar.arrive_and_wait();
    const int next = part[(me + 1) % 64];
    auto token = bar.arrive();
    bar.wait(token);
    part[me] = next;
  }
  sums[me] = part[me];
}

}  // namespace

TEST_CASE("operations return what was there") {
  DeviceArray<int> x(std::vector<int>{10}), old(9);
  launch(operations, 1, 1, 0, nullptr, x.data(), old.data());
  CHECK(old.to_host() == std::vector<int>{10, 15, 13, 20, 0, 9, 1, 1, 5});
}

TEST_CASE("an exchange takes one order for success, and one for failure") {
  DeviceArray<int> lock(std::vector<int>{0}), count(std::vector<int>{0});
  launch(counts_under_lock<true>, 2, 64, 0, nullptr, lock.data(), count.data());
  launch(counts_under_lock<false>, 2, 64, 0, nullptr, lock.data(), count.data());
  CHECK(count.to_host()[0] == 256);
  launch(turns, 1, 64, 0, nullptr, count.data());
  CHECK(count.to_host()[0] == 63);
}

TEST_CASE("operators return what is there afterwards, behind a name what was before") {
  DeviceArray<int> x(std::vector<int>{10}), old(10);
  launch(operators, 1, 1, 0, nullptr, x.data(), old.data());
  CHECK(old.to_host() == std::vector<int>{10, 10, 15, 13, 77, 72, 73, 73, 3, 3});
}

TEST_CASE("a flag that one block releases and another acquires") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    emulator_options().seed = seed;
    emulator_options().blocks_at_once = true;
    DeviceArray<int> data(1), flag(std::vector<int>{0}), got(1);
    launch(hands_on, 2, 32, 0, nullptr, data.data(), flag.data(), got.data());
    CHECK(got.to_host()[0] == 17);
  }
  emulator_options() = {};
}

TEST_CASE("a barrier is passed again and again") {
  DeviceArray<int> sums(64);
  launch(rounds, 1, 64, 0, nullptr, sums.data());
  for (int i = 0; i < 64; ++i) CHECK(sums.to_host()[static_cast<size_t>(i)] == (i + 5) % 64);
}
