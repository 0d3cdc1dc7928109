#include "yotta/core/ledger.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("ops add up by name") {
  Ledger ledger;
  ledger.charge({"gelu", DType::f32, 80, 40, 40});
  ledger.charge({"gelu", DType::f32, 8, 4, 4});
  ledger.charge({"matmul", DType::f32, 1000, 1, 2});
  CHECK(ledger.op("gelu").calls == 2);
  CHECK(ledger.op("gelu").flops == 88);
  CHECK(ledger.op("gelu").bytes_written == 44);
  CHECK(ledger.op("never").calls == 0);
  CHECK(ledger.total_flops() == 1088);
  ledger.reset();
  CHECK(ledger.ops().empty());
}

TEST_CASE("traffic adds up by label") {
  Ledger ledger;
  ledger.sent("gradients", 2, 100);
  ledger.sent("gradients", 1, 10);
  ledger.received("gradients", 1, 50);
  ledger.sent("barrier", 3, 0);
  CHECK(ledger.traffic("gradients").messages_sent == 3);
  CHECK(ledger.traffic("gradients").bytes_sent == 110);
  CHECK(ledger.traffic("gradients").bytes_received == 50);
  CHECK(ledger.total_traffic().messages_sent == 6);
  CHECK(ledger.traffic("never").bytes_sent == 0);
}

TEST_CASE("the peak of the sum is not the sum of the peaks") {
  MemoryCount memory;
  memory.add(MemoryKind::parameters, 100);
  memory.add(MemoryKind::activations, 50);
  memory.remove(MemoryKind::activations, 50);
  memory.add(MemoryKind::gradients, 20);
  CHECK(memory.peak() == 150);
  CHECK(memory.peak(MemoryKind::activations) == 50);
  CHECK(memory.peak(MemoryKind::gradients) == 20);
  CHECK(memory.live() == 120);
}

TEST_CASE("counts of another process are taken over") {
  Ledger ledger;
  ledger.charged("gelu", {2, 16, 8, 4});
  ledger.charged("gelu", {1, 1, 1, 1});
  CHECK(ledger.op("gelu").calls == 3);
  CHECK(ledger.op("gelu").flops == 17);
  CHECK(ledger.op("gelu").bytes_written == 5);
  MemoryCount memory;
  const std::array<int64_t, memory_kinds> live = {1, 2, 3, 4, 5}, peaks = {10, 20, 30, 40, 50};
  memory.assign(live, peaks, 99);
  CHECK(memory.live(MemoryKind::gradients) == 2);
  CHECK(memory.peak(MemoryKind::buffers) == 50);
  CHECK(memory.live() == 15);
  CHECK(memory.peak() == 99);
}
