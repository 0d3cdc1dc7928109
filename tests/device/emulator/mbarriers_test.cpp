#include "yotta/device/emulator/mbarriers.hpp"

#include <doctest/doctest.h>

#include "support/kernel_error.hpp"
#include "yotta/device/emulator/access_checker.hpp"

using namespace yotta;
using namespace yotta::emulator;

TEST_CASE("a phase completes when all arrivals and all bytes have come, in any order") {
  Mbarrier at{.count = 2, .pending = 2};
  at.come += 64;  // a copy may come before its bytes are expected
  at.pending -= 1;
  CHECK_FALSE(at.settle());
  at.expected += 64;
  CHECK_FALSE(at.settle());
  CHECK(at.text() == "phase 0 (parity 0) has 1 of 2 arrivals, and 64 of 64 bytes have come");
  at.pending -= 1;
  CHECK(at.settle());
  CHECK(at.text() == "phase 1 (parity 1) has 0 of 2 arrivals, and 0 of 0 bytes have come");
  at.pending = 0;
  at.expected = 32;
  CHECK_FALSE(at.settle());
}

TEST_CASE("a wait in vain is explained by what is missing") {
  const Where where = Where::current();
  check_says(explain_wait({.count = 4, .pending = 1, .where = where}, 0),
             {"has 3 of 4 arrivals", "1 arrivals are missing"});
  check_says(
      explain_wait({.count = 1, .pending = 0, .expected = 96, .come = 64, .where = where}, 0),
      {"64 of 96 bytes", "must be those that copies bring"});
  check_says(explain_wait({.count = 1, .pending = 1, .phase = 3, .where = where}, 1),
             {"phase 3 (parity 1)", "Phase 2 has completed, with parity 0"});
}

TEST_CASE("a copy moves its pieces, fills with zeros, and sees when its source has changed") {
  std::byte from[8] = {}, to[16] = {};
  from[5] = std::byte{7};
  to[12] = std::byte{9};
  BulkCopy copy{.pieces = {{to, from, 8}, {to + 8, nullptr, 8}}};
  CHECK(copy.bytes() == 16);
  copy.move();
  CHECK(to[5] == std::byte{7});
  CHECK(to[12] == std::byte{0});
  CHECK(copy.changed() == nullptr);
  copy.source.assign(from, from + 8);
  CHECK(copy.changed() == nullptr);
  from[6] = std::byte{1};
  CHECK(copy.changed() == from + 6);
}

TEST_CASE("no tick leaves a lane in the emulator's code, where it changes what is the block's") {
  AccessChecker::lane_starts();
  CHECK(in_kernel());
  {
    const UncheckedScope outer;
    { const UncheckedScope inner; }
    CHECK_FALSE(in_kernel());
  }
  CHECK(in_kernel());
}

TEST_CASE("a thread sees each phase complete once") {
  Mbarriers all;
  const uint64_t barrier = 0;
  CHECK_FALSE(all.sees(3, &barrier, 0));  // before phase 0 there is none
  CHECK(all.sees(3, &barrier, 1));
  CHECK_FALSE(all.sees(3, &barrier, 1));
  CHECK(all.sees(4, &barrier, 1));
}

TEST_CASE("quiet: all threads have waited for many rounds, and nothing has changed") {
  Mbarriers all;
  int rounds = 0;
  while (!all.quiet(true)) ++rounds;
  CHECK(rounds == 256);
  all.changed();
  CHECK_FALSE(all.quiet(true));
  CHECK_FALSE(all.quiet(false));
  const uint64_t barrier = 0;
  all.waiters[3] = {&barrier, all.round(), 0, Where::current()};
  CHECK(all.waits(3));
  CHECK_FALSE(all.waits(4));
  CHECK_FALSE(all.quiet(true));  // the next round, in which thread 3 has not asked
  CHECK_FALSE(all.waits(3));
}

TEST_CASE("stores: groups before the last ones are at the beginning") {
  BulkStores all;
  for (const int group : {0, 0, 1, 3}) all.copies.push_back({.group = group});
  all.group = 4;
  const auto count = [&](int pending) {
    return all.end_of_groups(all.copies, pending) - all.copies.begin();
  };
  CHECK(count(0) == 4);
  CHECK(count(1) == 3);
  CHECK(count(2) == 3);
  CHECK(count(3) == 2);
  CHECK(count(4) == 0);
}
