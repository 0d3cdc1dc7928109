#include "yotta/machine/chip.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

TEST_CASE("a peak is that of the type; f16 is as bf16, both fp8 are one") {
  const Chip& h100 = chip_named("h100");
  CHECK(peak(h100, DType::bf16) == 989.4e12);
  CHECK(peak(h100, DType::f16) == 989.4e12);
  CHECK(peak(h100, DType::f32) == 67e12);
  CHECK(peak(h100, DType::f64) == 34e12);
  CHECK(peak(h100, DType::fp8_e4m3) == peak(h100, DType::fp8_e5m2));
  CHECK(peak(ideal_chip(5), DType::f64) == 5);
}

TEST_CASE("what a chip cannot do, and a chip that is none, are refused") {
  CHECK(contains(message_of([] { peak(chip_named("v5p"), DType::f64); }),
                 "v5p does not compute in f64"));
  const std::string text = message_of([] { chip_named("h1000"); });
  CHECK(contains(text, "no chip is called 'h1000'"));
  CHECK(contains(text, "h100-pcie"));
}

TEST_CASE("every chip has a name of its own, a source, and figures that fit together") {
  for (const Chip& chip : known_chips) {
    CAPTURE(chip.name);
    CHECK(&chip_named(chip.name) == &chip);
    CHECK(std::string(chip.source).size() > 10);
    CHECK(chip.bf16 > chip.f32);
    CHECK((chip.fp8 == 0 || (chip.fp8 / chip.bf16 > 1.99 && chip.fp8 / chip.bf16 < 2.01)));
    CHECK((chip.memory > 0 && chip.bandwidth > chip.link && chip.link > 0 && chip.links > 0));
  }
}
