// A described machine: two nodes of eight H100, of which this computer has none.
// One gigabyte travels nine times as long between the nodes as inside of one.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_on.hpp"
#include "yotta/machine/cluster.hpp"

using namespace yotta;

// Seconds until a gigabyte of chip 0 has arrived at another chip.
double seconds_to(int chip, const Cluster& machine) {
  const Timed run = run_on(machine, machine.size(), [&](Communicator& world) {
    const DeviceScope meta(Device::meta);  // the shape of a tensor, without its numbers
    Tensor gigabyte = Tensor::empty({1'000'000'000}, DType::u8);
    if (world.rank() == 0) world.send(gigabyte, chip);
    if (world.rank() == chip) world.recv(gigabyte, 0);
  });
  return run.seconds(chip);
}

int main() {
  const Cluster machine = cluster_named("h100x16");
  const double inside = seconds_to(1, machine), between = seconds_to(8, machine);
  fmt::print("1 GB takes {:.2f} ms inside a node, {:.2f} ms between nodes\n", 1e3 * inside,
             1e3 * between);
  // A latency, and the bytes through NVLink (450 GB/s) or through a network card (50 GB/s).
  const double expected_inside = machine.link(0, 1).alpha + 1e9 / 450e9;
  const double expected_between = machine.link(0, 8).alpha + 1e9 / 50e9;
  if (!(std::abs(inside - expected_inside) < 1e-9) ||
      !(std::abs(between - expected_between) < 1e-9)) {
    fmt::print("{} s and {} s are right\n", expected_inside, expected_between);
    return 1;
  }
}
