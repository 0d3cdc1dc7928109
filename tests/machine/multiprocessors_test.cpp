#include "yotta/machine/multiprocessors.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/machine/chip.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("multiprocessors are those of a chip that is known") {
  for (const Multiprocessors& each : known_multiprocessors) {
    CHECK(chip_named(each.chip).memory > 0);
    CHECK(&multiprocessors_of(each.chip) == &each);
    CHECK(each.shared == each.shared_of_block + 1024);  // a block takes 1 KiB more than it asks for
  }
  const std::string message = message_of([] { multiprocessors_of("v5p"); });
  CHECK(contains(message, "chip 'v5p'; known are a100 h100 h100-pcie h200 b200"));
}
