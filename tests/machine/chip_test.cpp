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

TEST_CASE("the datasheets: dense rates, memory, links one way, and how far they reach") {
  struct Row {
    const char* name;
    double bf16, fp8, int8, memory, bandwidth, link;
    int links, domain;
  };
  const Row rows[] = {{"a100", 312, 0, 624, 80, 2.0, 300, 1, 8},
                      {"h100", 989.4, 1979, 1979, 80, 3.35, 450, 1, 8},
                      {"h100-pcie", 756, 1513, 1513, 80, 2.0, 300, 1, 2},
                      {"h200", 989, 1979, 1979, 141, 4.8, 450, 1, 8},
                      {"b200", 2250, 4500, 4500, 192, 8.0, 900, 1, 8},
                      {"v5e", 197, 0, 393, 16, 0.82, 45, 4, 256},
                      {"v5p", 459, 0, 918, 95, 2.765, 90, 6, 8960},
                      {"v6e", 918, 0, 1836, 32, 1.638, 100, 4, 256}};
  CHECK(std::size(rows) == known_chips.size());
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const Chip& chip = chip_named(row.name);
    const auto is = [](double actual, double expected) {
      return doctest::Approx(expected).epsilon(1e-12) == actual;
    };
    CHECK(is(chip.bf16, row.bf16 * 1e12));
    CHECK(is(chip.fp8, row.fp8 * 1e12));
    CHECK(is(chip.int8, row.int8 * 1e12));
    CHECK(is(chip.memory, row.memory * 1e9));
    CHECK(is(chip.bandwidth, row.bandwidth * 1e12));
    CHECK(is(chip.link, row.link * 1e9));
    CHECK((chip.links == row.links && chip.domain == row.domain));
  }
}
