#include "yotta/device/emulator/wgmmas.hpp"

#include <doctest/doctest.h>

using namespace yotta;
using namespace yotta::emulator;

TEST_CASE("the warps of a group execute the same, each at its own time") {
  Wgmmas all;
  const Where where = Where::current();
  CHECK(all.missing() == -1);
  CHECK(all.next(4, {where, 1, 2}).b == 2);
  CHECK(all.next(4, {where, 3, 4}).b == 4);
  CHECK(all.next(5, {where, 7, 8}).b == 2);  // what warp 4 executed first
  CHECK(all.missing() == 5);
  CHECK(all.missed_by(5).a == 3);
  CHECK(all.missed_by(6).a == 1);
  for (int warp = 5; warp < 8; ++warp)
    while (all.warps[warp].executed < 2) all.next(warp, {where, 0, 0});
  CHECK(all.missing() == -1);
  all.clear();
  CHECK(all.next(4, {where, 5, 6}).a == 5);
}
