// checked: this file is compiled for the emulator's checks.
#include "yotta/device/emulator/check_atomics.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "yotta/device/emulator/check_hooks.hpp"

namespace {

template <class T>
void check_integer() {
  std::atomic<T> n = 5;
  CHECK(n.fetch_add(3) == 5);
  CHECK(n.fetch_sub(1) == 8);
  CHECK(n.fetch_or(8) == 7);
  CHECK(n.fetch_and(12) == 15);
  CHECK(n.fetch_xor(5) == 12);
  CHECK(n.exchange(20) == 9);
  T expected = 21;
  CHECK_FALSE(n.compare_exchange_strong(expected, 1));
  CHECK(expected == 20);
  CHECK(n.compare_exchange_strong(expected, 1));
  while (!n.compare_exchange_weak(expected, 2)) {
  }
  n.store(static_cast<T>(n.load() + 1));
  CHECK(n == 3);
}

}  // namespace

TEST_CASE("host atomics of every size work in a checked file") {
  check_integer<uint8_t>();
  check_integer<uint16_t>();
  check_integer<uint32_t>();
  check_integer<uint64_t>();
}

TEST_CASE("they are atomic") {
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) ++sum;
    });
  for (auto& each : threads) each.join();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  CHECK(sum == 40000);
}
