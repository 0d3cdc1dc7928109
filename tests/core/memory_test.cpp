#include "yotta/core/memory.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

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

TEST_CASE("out of memory says who asked for how much, for what, and what it holds already") {
  if (YOTTA_ASAN || YOTTA_TSAN) YOTTA_NOT_RUN("a sanitizer ends the program here");
  RankContext rank;
  rank.rank = 3;
  const ContextScope scope(rank);
  const MemoryScope kind(MemoryKind::gradients);
  const Buffer some(2000000, Device::cpu);
  const std::string text = message_of([&] { const Buffer much(int64_t{1} << 46, Device::cpu); });
  for (const char* words :
       {"memory_test.cpp:", "rank 3", "70368.744 GB (70368744177664 bytes) of gradients",
        "it holds 0.002 GB: gradients 0.002 GB", "try "})
    CHECK_MESSAGE(contains(text, words), text);
  CHECK(rank.ledger.memory()->live() == 2000000);
}
