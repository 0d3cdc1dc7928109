#include "yotta/comm/processes/link_throttle.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a link is a rate, a latency, or both") {
  CHECK(parse_link("20Mbit/s").bytes_per_second == 2.5e6);
  CHECK(parse_link("20Mbit/s").latency == 0);
  CHECK(parse_link("1Gbit/s,50ms").bytes_per_second == 1.25e8);
  CHECK(parse_link("1Gbit/s,50ms").latency == 0.05);
  CHECK(parse_link("0.5ms").latency == 0.0005);
  CHECK(parse_link("100kbit/s").bytes_per_second == 12500);
  for (const char* wrong : {"", "fast", "20", "20MB/s", "-1Mbit/s", "0Mbit/s", "nanms", "infms",
                            "20Mbit/s,", "20Mbit/s;50ms", "Mbit/s"}) {
    CAPTURE(std::string(wrong));
    CHECK(contains(message_of([&] { parse_link(wrong); }), "is not a link"));
  }
}

TEST_CASE("a link has one rate and one latency, with which a run comes to its end") {
  const auto said = [](const char* text) { return message_of([&] { parse_link(text); }); };
  CHECK(contains(said("10Mbit/s,20Mbit/s"), "has two rates"));
  CHECK(contains(said("10Mbit/s,10Mbit/s"), "has two rates"));
  CHECK(contains(said("5ms,1Gbit/s,6ms"), "has two latencies"));
  CHECK(contains(said("0.1kbit/s"), "has 100 bit/s: give 1kbit/s to 1000000Gbit/s"));
  CHECK(contains(said("1e-300Mbit/s"), "give 1kbit/s"));
  CHECK(contains(said("1e300Gbit/s"), "to 1000000Gbit/s"));
  CHECK(contains(said("60001ms"), "has a latency of 60.001 s: give 60000ms at most"));
  CHECK(parse_link("1kbit/s,60000ms").latency == 60);
}

TEST_CASE("a message waits for its latency, and for what left before it") {
  LinkThrottle card(parse_link("8Mbit/s,50ms"));  // 1 MB/s
  CHECK(card.ready_at(2) == 2.05);
  CHECK(card.may_leave_at(2.05) == 2.05);
  card.has_left(2.05, 5e5);
  CHECK(std::abs(card.may_leave_at(2.06) - 2.55) < 1e-12);
  CHECK(card.may_leave_at(3) == 3);
  card.has_left(3, 1e5);
  card.has_left(3, 1e5);  // a second part at once: the card is busy for both
  CHECK(std::abs(card.may_leave_at(0) - 3.2) < 1e-12);
}

TEST_CASE("without a rate parts leave at once; without either the card is not slow") {
  LinkThrottle card(parse_link("50ms"));
  card.has_left(1, 1e9);
  CHECK(card.may_leave_at(0) == 0);
  CHECK(card.is_slow());
  CHECK(!LinkThrottle().is_slow());
}
