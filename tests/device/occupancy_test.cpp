#include "yotta/device/occupancy.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/machine/latency_hiding.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("occupancy is what NVIDIA's calculator says") {
  const Multiprocessors& h100 = multiprocessors_of("h100");
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).by_warps == 8);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).by_registers == 6);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).by_shared == 4);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).blocks() == 4);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).fraction() == 0.5);
  CHECK(occupancy(h100, {32, 0, 32}).blocks() == 32);   // 64 warps, but 32 blocks
  CHECK(occupancy(h100, {1024, 0, 32}).blocks() == 2);  // all of its threads
  CHECK(occupancy(h100, {1024, 0, 33}).blocks() == 1);  // 40 registers a thread are taken
  CHECK(occupancy(h100, {128, 0, 255}).blocks() == 2);
  CHECK(occupancy(h100, {128, 227 * 1024, 0}).blocks() == 1);
  CHECK(occupancy(h100, {128, 113 * 1024, 0}).blocks() == 2);
  CHECK(occupancy(multiprocessors_of("a100"), {128, 81 * 1024, 0}).blocks() == 2);
  CHECK(occupancy(multiprocessors_of("a100"), {128, 82 * 1024, 0}).blocks() == 1);
}

TEST_CASE("the report names the limit, and an unknown chip is refused") {
  CHECK(contains(
      occupancy_report(multiprocessors_of("h100"), {256, 48 * 1024, 40}),
      "4 blocks of 8 warps on each of 132 SMs (50% of its warps), limited by shared memory"));
  CHECK(contains(occupancy_report(multiprocessors_of("h100"), {1024, 0, 0}), "limited by threads"));
  CHECK(contains(message_of([] { multiprocessors_of("v5p"); }), "known are a100"));
}

TEST_CASE("warps that fit against warps that Little's law asks for") {
  for (const SmSheet& sm : sm_sheets) {
    const Multiprocessors& chip = multiprocessors_of(sm.chip);
    CHECK(chip.count == sm.sms);
    CHECK(chip.warps == sm.most_warps);
    const double full = chip_named(sm.chip).bandwidth;
    // A full SM hides latency with loads of 4 bytes, half of one does not; with 16 bytes it does.
    const Occupancy whole = occupancy(chip, {256, 0, 32}), half = occupancy(chip, {256, 0, 64});
    CHECK(whole.warps() >= warps_needed(sm, 4));
    CHECK(half.warps() < warps_needed(sm, 4));
    CHECK(bandwidth_reached(sm, whole.warps(), 4) == full);
    CHECK(bandwidth_reached(sm, half.warps(), 4) < 0.7 * full);
    CHECK(bandwidth_reached(sm, half.warps(), 16) == full);
  }
}
