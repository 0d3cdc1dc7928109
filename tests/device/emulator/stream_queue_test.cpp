#include "yotta/device/emulator/stream_queue.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "device/emulator/stream_numbers.hpp"
#include "support/message_of.hpp"
#include "yotta/device/streams.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Two operations on each of two streams, the second's second after the first's first.
std::vector<int> order_with(uint64_t seed) {
  StreamQueue::instance().seed(seed);
  std::vector<int> order;
  Stream a, b;
  Event event;
  add(a, order, 10);
  check_cuda(cudaEventRecord(event, a));
  add(a, order, 11);
  add(b, order, 20);
  check_cuda(cudaStreamWaitEvent(b, event));
  add(b, order, 21);
  CHECK(order.empty());
  check_cuda(cudaDeviceSynchronize());
  return order;
}

__global__ void fails() { throw std::runtime_error("no luck"); }
__global__ void set(int* y, int value) { *y = value; }

}  // namespace

TEST_CASE("operations run in all orders that streams and events allow, and in no other") {
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 1; seed <= 100; ++seed) seen.insert(order_with(seed));
  CHECK(seen == std::set<std::vector<int>>{{10, 11, 20, 21},
                                           {10, 20, 11, 21},
                                           {10, 20, 21, 11},
                                           {20, 10, 11, 21},
                                           {20, 10, 21, 11}});
  CHECK(order_with(7) == order_with(7));
}

TEST_CASE("the host waits for one stream only") {
  int left = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    StreamQueue::instance().seed(seed);
    std::vector<int> order;
    Stream a, b;
    add(a, order, 1);
    add(b, order, 2);
    check_cuda(cudaStreamSynchronize(a));
    CHECK(std::count(order.begin(), order.end(), 1) == 1);
    left += order.size() == 1;
    check_cuda(cudaDeviceSynchronize());
    CHECK(order.size() == 2);
  }
  CHECK(left > 0);
  CHECK(left < 10);
}

TEST_CASE("an event means the moment at which it was recorded last") {
  std::vector<int> order;
  Stream a;
  Event event;
  add(a, order, 1);
  check_cuda(cudaEventRecord(event, a));
  check_cuda(cudaEventSynchronize(event));
  CHECK(order == std::vector<int>{1});
  add(a, order, 2);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  check_cuda(cudaEventRecord(event, a));
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  check_cuda(cudaEventSynchronize(event));
  CHECK(order.size() == 2);
}

TEST_CASE("a long queue is worked off, as a GPU's host waits when its queue is full") {
  std::vector<int> order;
  Stream a;
  for (int i = 0; i < 1500; ++i) add(a, order, i);
  CHECK(order.size() > 400);
  check_cuda(cudaStreamSynchronize(a));
  CHECK(order.size() == 1500);
}

TEST_CASE(
    "what fails is thrown by the call that waits, what was queued is dropped, the next is well") {
  DeviceArray<int> y(std::vector<int>{0});
  Stream a;
  launch(fails, 1, 1, 0, a);
  launch(set, 1, 1, 0, a, y.data(), 1);
  CHECK_THROWS_WITH(check_cuda(cudaStreamSynchronize(a)), "no luck");
  CHECK(y.to_host()[0] == 0);
  launch(set, 1, 1, 0, a, y.data(), 2);
  CHECK(y.to_host()[0] == 2);
}

TEST_CASE("an array that goes while its stream has failed keeps the error for the next call") {
  Stream a;
  {
    const DeviceArray<int> y(1);
    launch(fails, 1, 1, 0, a);
  }
  CHECK_THROWS_WITH(check_cuda(cudaStreamSynchronize(a)), "no luck");
}

TEST_CASE("two copies without an order are named in every build") {
  Stream a, b;
  DeviceArray<int> x(4);
  x.named("x");
  check_cuda(cudaMemsetAsync(x.data(), 0, 16, a));
  check_cuda(cudaMemsetAsync(x.data() + 3, 1, 4, b));
  const std::string message = message_of([&] { check_cuda(cudaDeviceSynchronize()); });
  CHECK(contains(message, "race between streams"));
  CHECK(contains(message, "x, bytes 12 to 15 of 16"));
}
