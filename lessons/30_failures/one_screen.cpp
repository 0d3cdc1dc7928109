// Failures: ten thousand nodes, of which one fails every 14 minutes, and snapshots of ten seconds.
// Saved too seldom, work is done again; too often, all wait for snapshots. Daly says how often.
#include <fmt/format.h>

#include "yotta/resilience/failure_arithmetic.hpp"
#include "yotta/resilience/regroup.hpp"

using namespace yotta;

int main() {
  const double save = 10, down = 60;  // seconds of a snapshot, and of a restart
  const double mean = seconds_between_failures(10'000);
  const double daly = best_intervals(save, mean).daly;
  // The share of the time that trains for good, expected; and that of a simulated run.
  const auto goodput = [&](double interval) {
    return expected_goodput({interval, save, down}, mean);
  };
  const std::vector<FailureSource> nodes = {{"node", mean}};
  const double best = goodput(daly);
  const double run = simulate_run({daly, save, down}, nodes, 3000 * mean, 1).goodput();
  fmt::print("a snapshot every {:.0f} s: {:.1f}% trains for good, in a simulated run {:.1f}%\n",
             daly, 100 * best, 100 * run);
  fmt::print("every {:.0f} s {:.1f}%, every {:.0f} s {:.1f}%\n", daly / 4, 100 * goodput(daly / 4),
             4 * daly, 100 * goodput(4 * daly));
  const bool right = best > goodput(daly / 1.2) && best > goodput(1.2 * daly) &&
                     run > 0.99 * best && run < 1.01 * best;
  if (!right) fmt::print("no other interval must be better, and the run as expected\n");
  return right ? 0 : 1;
}
