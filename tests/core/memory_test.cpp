#include "yotta/core/memory.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("buffers are counted for the rank that made them") {
  RankContext rank, other;
  const ContextScope scope(rank);
  auto buffer = std::make_unique<Buffer>(1000, Device::cpu);
  const Buffer meta(int64_t{1} << 40, Device::meta);
  CHECK(meta.data() == nullptr);
  CHECK(rank.ledger.memory()->live() == 1000 + (int64_t{1} << 40));
  {
    const ContextScope elsewhere(other);
    buffer.reset();
  }
  CHECK(rank.ledger.memory()->live() == int64_t{1} << 40);
  CHECK(other.ledger.memory()->live() == 0);
}
