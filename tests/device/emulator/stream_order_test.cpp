#include "yotta/device/emulator/stream_order.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a clock has seen what it was joined with, and no more") {
  StreamClock a, b;
  a.set(1, 3);
  b.set(2, 5);
  StreamOperation third, fifth;
  third.stream = 1;
  third.number = 3;
  fifth.stream = 2;
  fifth.number = 5;
  CHECK(third.before(a));
  CHECK_FALSE(fifth.before(a));
  a.join(b);
  CHECK(fifth.before(a));
  fifth.number = 6;
  CHECK_FALSE(fifth.before(a));
  CHECK_FALSE(third.before(b));
  b.set(1, 2);
  a.join(b);  // it forgets nothing
  CHECK(third.before(a));
}

TEST_CASE("neighbouring stretches of one line become one") {
  Footprint all;
  all.add({100, 4, MemoryUse::read, 7});
  all.add({104, 4, MemoryUse::read, 7});
  all.add({104, 4, MemoryUse::write, 7});
  all.add({112, 4, MemoryUse::read, 7});
  all.add({116, 4, MemoryUse::read, 8});
  CHECK(all.reads.size() == 3);
  CHECK(all.reads[0].bytes == 8);
  CHECK(all.writes.size() == 1);
}

TEST_CASE("two footprints are in conflict where one writes what the other touches") {
  const auto conflicts = [](Stretch a, Stretch b) {
    Footprint one, two;
    one.add({10, 4, MemoryUse::read});  // of no interest, before and behind
    one.add(a);
    two.add(b);
    two.add({1000, 4, b.use});
    return conflict(one, two).first != nullptr;
  };
  CHECK(conflicts({100, 8, MemoryUse::write}, {104, 8, MemoryUse::read}));
  CHECK(conflicts({100, 8, MemoryUse::read}, {96, 5, MemoryUse::write}));
  CHECK(conflicts({100, 8, MemoryUse::write}, {100, 8, MemoryUse::write}));
  CHECK(conflicts({100, 8, MemoryUse::atomic}, {100, 8, MemoryUse::read}));
  CHECK(conflicts({100, 8, MemoryUse::free}, {107, 1, MemoryUse::read}));
  CHECK_FALSE(conflicts({100, 8, MemoryUse::write}, {108, 8, MemoryUse::write}));
  CHECK_FALSE(conflicts({100, 8, MemoryUse::read}, {100, 8, MemoryUse::read}));
  CHECK_FALSE(conflicts({100, 8, MemoryUse::atomic}, {100, 8, MemoryUse::atomic}));
}
