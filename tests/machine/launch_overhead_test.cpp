#include "yotta/machine/launch_overhead.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"

using namespace yotta;
using yotta_test::near;

namespace {

std::vector<HostCall> kernels(size_t n, double seconds) { return {n, kernel("k", seconds)}; }

Host bare() {
  Host host;
  host.framework = 0;
  return host;
}

}  // namespace

TEST_CASE("equal kernels take what the formula says, on either side of the crossover") {
  for (const double seconds : {0.0, 1e-6, hiding_seconds({}), 8e-6, 1e-3})
    for (const size_t n : {1, 2, 100}) {
      CAPTURE(seconds);
      CAPTURE(n);
      CHECK(simulate(kernels(n, seconds)).seconds ==
            near(launched_seconds({}, static_cast<double>(n), seconds)));
    }
}

TEST_CASE("the size at which overhead disappears: by formula and by run") {
  const Host host;
  CHECK(host.gap == chip_named("h100").launch_overhead);
  // The shortest kernel after which the chip does not wait for the next, found by bisection.
  double idle = 0, hidden = 1e-3;
  while (hidden - idle > 1e-12) {
    const double middle = (idle + hidden) / 2;
    const std::vector<Span> spans = simulate(kernels(2, middle), host).spans;
    double first_end = 0, second = 0;
    for (const Span& span : spans)
      if (span.stream == 0) (first_end == 0 ? first_end = span.end : second = span.begin);
    (second - first_end > host.gap + 1e-15 ? idle : hidden) = middle;
  }
  CHECK(hidden == near(hiding_seconds(host)).epsilon(1e-6));
  const Roofline h100 = roofline_of(chip_named("h100"));
  const double n = hiding_matmul(host, h100);
  CHECK(h100.seconds(2 * n * n * n, 0) == near(hiding_seconds(host)));
  CHECK(h100.seconds(0, hiding_bytes(host, h100)) == near(hiding_seconds(host)));
}

TEST_CASE(
    "a stream keeps its order; an event orders two of them; one never recorded has happened") {
  LaunchQueue queue{bare()};
  queue.issue(copy_to(0, "copy", 25e3, 1));  // 1 us on stream 1
  queue.issue(record(7, 1));
  queue.issue(wait_for(8, 0));  // nobody records it
  queue.issue(kernel("early", 1e-6, 0));
  queue.issue(wait_for(7, 2));
  queue.issue(kernel("late", 1e-6, 2));
  const auto named = [&](const char* name) {
    for (const Span& span : queue.spans)
      if (span.name == name && span.stream != host_row) return span;
    return Span{};
  };
  const double launch = queue.host.launch;
  CHECK(named("copy").begin == near(launch));
  CHECK(queue.events.at(7) == near(launch + 1e-6));
  CHECK(named("early").begin == near(2 * launch + queue.host.gap));
  CHECK(named("late").begin >= queue.events.at(7));
  CHECK(named("late").begin == near(std::max(3 * launch, named("early").end) + queue.host.gap));
}

TEST_CASE("an event that is late keeps the stream that waits, and nobody else's host") {
  LaunchQueue queue{bare()};
  queue.issue(copy_to(0, "copy", 25e6, 1));  // 1 ms
  queue.issue(record(0, 1));
  queue.issue(wait_for(0, 0));
  queue.issue(kernel("k", 1e-6));
  CHECK(queue.now == near(2 * queue.host.launch));
  CHECK(queue.spans[2].name == "k");
  CHECK(queue.spans[2].begin == near(queue.host.launch + 1e-3 + queue.host.gap));
}

TEST_CASE("a copy from pageable memory is slower, and the host waits for it") {
  const auto run = [](bool pinned) {
    const std::vector<HostCall> program = {copy_to(0, "copy", 8e6, 1, pinned), kernel("k", 1e-3)};
    return simulate(program);
  };
  const Host host;
  const double issue = host.framework + host.launch;
  CHECK(run(true).host == near(2 * issue));
  CHECK(run(true).seconds == near(2 * issue + host.gap + 1e-3));
  CHECK(run(false).host == near(2 * issue + 1e-3));
  CHECK(run(false).seconds == near(2 * issue + 1e-3 + host.gap + 1e-3));
}

TEST_CASE("synchronize waits for all of its stream, or for an event alone") {
  const auto host_time = [](const HostCall& wait) {
    LaunchQueue queue{bare()};
    queue.issue(kernel("first", 50e-6));
    queue.issue(record(0, 0));
    queue.issue(kernel("second", 50e-6));
    queue.issue(wait);
    return queue.now - queue.host.completion;
  };
  const Host host = bare();
  CHECK(host_time(synchronize(0, 0)) == near(host.launch + host.gap + 50e-6));
  CHECK(host_time(synchronize()) == near(host.launch + 2 * host.gap + 100e-6));
  CHECK(host_time(synchronize(5)) == near(2 * host.launch));  // an empty stream
}

TEST_CASE("a timeline has a row for the host and one a stream") {
  const std::vector<HostCall> program = {host_work("read", 2e-6), kernel("add", 3e-6)};
  Host host = bare();
  host.launch = 1e-6, host.gap = 1e-6;
  CHECK(timeline_rows(simulate(program, host).spans, 8e-6, 8) ==
        "host      rra·····\n"
        "stream 0  ····aaa·\n");
}
