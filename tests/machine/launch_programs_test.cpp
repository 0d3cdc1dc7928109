#include "yotta/machine/launch_programs.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"

using namespace yotta;
using yotta_test::near;

namespace {

const std::vector<HostCall> one_kernel = {kernel("step", 1e-3)};

}  // namespace

TEST_CASE("overlapped steps take the longer of copy and step, and race nowhere") {
  for (const double copy : {2e-3, 0.5e-3}) {
    CAPTURE(copy);
    const Host host;
    const double bytes = copy * host.pinned;
    const LaunchRun serial = simulate(serial_steps(bytes, one_kernel, 20), host);
    const LaunchRun overlapped = simulate(overlapped_steps(bytes, one_kernel, 20), host);
    CHECK(serial.seconds == near(20 * (copy + 1e-3)).epsilon(0.01));
    CHECK(overlapped.seconds ==
          near(20 * std::max(copy, 1e-3) + std::min(copy, 1e-3)).epsilon(0.01));
    CHECK(first_race(serial.spans) == "");
    CHECK(first_race(overlapped.spans) == "");
  }
}

TEST_CASE(
    "each event of the overlapped program is needed: without it there is a race, at some speed") {
  for (const double copy : {2e-3, 0.5e-3})
    for (const int missing : {0, 1, 2, 3}) {
      std::vector<HostCall> program = overlapped_steps(copy * Host{}.pinned, one_kernel, 6);
      std::erase_if(program, [&](const HostCall& call) {
        return call.kind == CallKind::wait && call.event == missing;
      });
      CAPTURE(copy);
      CAPTURE(missing);
      // A long copy is late for its step; a short one overwrites what a step still reads. Batch 0
      // is late either way, since no step runs before it.
      const bool races = missing == 0 || (missing == 1 ? copy > 1e-3 : copy < 1e-3);
      CHECK((first_race(simulate(program).spans) != "") == races);
    }
  std::vector<HostCall> program = overlapped_steps(2e-3 * Host{}.pinned, one_kernel, 1);
  std::erase_if(program, [](const HostCall& call) { return call.kind == CallKind::wait; });
  CHECK(first_race(simulate(program).spans) ==
        "'step' on stream 0 begins at 17.30 us, while 'copy' on stream 1 still uses buffer 0, "
        "until 2008.20 us");
}

TEST_CASE("merged kernels do the same work with fewer launches") {
  std::vector<HostCall> program(148, kernel("adamw", 1e-6));
  program.insert(program.begin() + 100, kernel("norm", 1e-6));
  const std::vector<HostCall> fewer = merged(program, "adamw");
  REQUIRE(fewer.size() == 3);
  CHECK(fewer[0].seconds == near(100e-6));
  CHECK(fewer[1].name == "norm");
  CHECK(simulate(fewer).busy == near(simulate(program).busy));
  const Host host;
  CHECK(simulate(program).seconds == near(launched_seconds(host, 149, 1e-6)));
}

TEST_CASE("a graph refuses what the host would have to answer, and other shapes") {
  const std::vector<HostCall> reads_loss = {kernel("loss", 1e-6), synchronize()};
  CHECK_THROWS_WITH_AS(capture(reads_loss, 8), doctest::Contains("CaptureUnsupported"), Error);
  const std::vector<HostCall> branches = {host_work("branch", 1e-6), kernel("loss", 1e-6, 0, 3)};
  const LaunchGraph graph = capture(branches, 8);
  CHECK(graph.launch.captured.size() == 1);  // what the host did is not replayed
  CHECK(graph.input == 3);
  const std::vector<double> shapes = {8, 16};
  CHECK_THROWS_WITH_AS(replayed_steps(graph, shapes), doctest::Contains("batch 1 has 16 bytes"),
                       Error);
}

TEST_CASE("replayed steps read the batch of their own step") {
  const std::vector<HostCall> step = {kernel("embed", 5e-6, 0, 3), kernel("loss", 5e-6)};
  const std::vector<double> batches(3, 1e6);
  const std::vector<Span> spans = simulate(replayed_steps(capture(step, 1e6), batches)).spans;
  CHECK(first_race(spans) == "");
  std::vector<std::string> seen;
  std::string inside;
  for (const Span& span : spans) {
    if (span.writes == 3) inside = span.name;
    if (span.reads == 3) seen.push_back(inside);
  }
  CHECK(seen == std::vector<std::string>{"batch 0", "batch 1", "batch 2"});
}

TEST_CASE("what real code charges becomes a list of kernels, on the roofline") {
  const Chip& chip = chip_named("h100");
  const std::vector<HostCall> calls = recorded_kernels(chip, [] {
    charge({"matmul", DType::bf16, 989.4e6, 8, 8});
    charge({"copy", DType::bf16, 0, 3.35e6, 3.35e6});
  });
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].name == "matmul");
  CHECK(calls[0].seconds == near(1e-6));
  CHECK(calls[1].seconds == near(2e-6));
  CHECK(context().clock == nullptr);
}
