// Launch overhead: a hundred small kernels and one that does all their work, from one host.
// The chip computes for the same time; the host makes the small ones seven times as slow.
#include <fmt/format.h>

#include "yotta/machine/launch_programs.hpp"

using namespace yotta;

int main() {
  std::vector<HostCall> small(100, kernel("add", 1e-6));  // each one microsecond of work
  small.push_back(synchronize());
  const LaunchRun many = simulate(small), one = simulate(merged(small, "add"));
  fmt::print("100 kernels: {:.0f} us, the chip computes for {:.0f}% of it\n", 1e6 * many.seconds,
             100 * many.busy_share());
  fmt::print("the same work in 1 kernel: {:.0f} us, {:.0f}%\n", 1e6 * one.seconds,
             100 * one.busy_share());
  const Host host;
  const double expected = launched_seconds(host, 100, 1e-6) + host.completion;
  if (!(std::abs(many.seconds - expected) < 1e-9) || !(std::abs(many.busy - one.busy) < 1e-9) ||
      !(many.seconds > 4 * one.seconds)) {
    fmt::print("{:.1f} us for the 100, and as much computing in both, are right\n", 1e6 * expected);
    return 1;
  }
}
