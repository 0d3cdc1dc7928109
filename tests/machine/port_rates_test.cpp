#include "yotta/machine/port_rates.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {

struct Times {
  double sent = 0, received = 0;
};
struct Planned {
  int out, in;
  double work, begin;
};

// All messages are received from when they begin.
std::vector<Times> times(const std::vector<Planned>& all) {
  PortRates rates;
  std::vector<Times> found(all.size());
  for (const Planned& each : all) rates.enters_by(rates.add(each.out, each.work), each.in);
  size_t begun = 0;
  for (;;) {
    const double next = rates.next();
    if (begun < all.size() && all[begun].begin <= next) {
      rates.begin_send(static_cast<int>(begun), all[begun].begin);
      rates.begin_recv(static_cast<int>(begun), all[begun].begin);
      ++begun;
      continue;
    }
    if (next == std::numeric_limits<double>::infinity()) return found;
    const PortRates::Done done = rates.finish_next();
    Times& of = found[static_cast<size_t>(done.message)];
    if (done.sent) of.sent = next;
    if (done.received) of.received = next;
  }
}
void check(const Times& times, double sent, double received) {
  CHECK(times.sent == doctest::Approx(sent).epsilon(1e-12));
  CHECK(times.received == doctest::Approx(received).epsilon(1e-12));
}

}  // namespace

TEST_CASE("a message alone comes in as it leaves") {
  check(times({{0, 10, 5, 2}})[0], 7, 7);
  check(times({{0, 10, 0, 2}})[0], 2, 2);
}

TEST_CASE("messages that leave by one port share it, whenever they begin") {
  const auto two = times({{0, 10, 10, 0}, {0, 11, 30, 0}});
  check(two[0], 20, 20);
  check(two[1], 40, 40);
  const auto late = times({{0, 10, 20, 0}, {0, 11, 20, 10}});
  check(late[0], 30, 30);  // ten seconds alone, then 20 with half of the port
  check(late[1], 40, 40);
}

TEST_CASE("what comes in slowly leaves the rest of the port to the others") {
  // Four leave by port 0; one of them meets a fifth, which has a port out of its own.
  const auto all =
      times({{0, 10, 10, 0}, {0, 11, 10, 0}, {0, 12, 10, 0}, {0, 13, 10, 0}, {1, 10, 10, 0}});
  check(all[0], 40, 40);
  check(all[4], 10, 40.0 / 3);  // at 3/4 of port 10; its sender had finished before
}

TEST_CASE("a sender is not slowed by a busy receiver; what has left waits, then comes in") {
  const auto all = times({{0, 10, 10, 0}, {1, 10, 10, 0}, {2, 10, 10, 0}});
  for (const Times& each : all) check(each, 10, 30);
  // The second comes at a time when the first has half of its bytes in.
  const auto late = times({{0, 10, 10, 0}, {1, 10, 10, 5}});
  check(late[0], 10, 15);
  check(late[1], 15, 20);
}

TEST_CASE("a message that fell behind catches up and then comes in as it is sent") {
  // Port 0 is shared until 12, so message 0 is sent at one half, and comes in at one third while
  // two others use port 10.
  const auto all = times({{0, 10, 30, 0}, {0, 11, 100, 0}, {1, 10, 2, 0}, {2, 10, 2, 0}});
  check(all[2], 2, 6);
  check(all[3], 2, 6);
  // At 6 it has 3 of its work sent and 2 received: two seconds of the whole port make that up.
  check(all[0], 60, 60);
  check(all[1], 130, 130);
}

TEST_CASE("one that is received late comes in at the port's own rate") {
  PortRates rates;
  const int message = rates.add(0, 10);
  rates.enters_by(message, 10);
  rates.begin_send(message, 0);
  CHECK(rates.next() == 10);
  CHECK(rates.finish_next().sent);
  CHECK(rates.next() == std::numeric_limits<double>::infinity());
  rates.begin_recv(message, 12);
  CHECK(rates.next() == 22);
  CHECK(rates.finish_next().received);
}
