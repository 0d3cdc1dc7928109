// Failures: ten thousand nodes, of which one fails every 14 minutes, and snapshots of ten seconds.
// Saved too seldom, work is done again; too often, all wait for snapshots. Daly says how often.
#include <fmt/format.h>

#include "yotta/model/failure_arithmetic.hpp"
#include "yotta/model/regroup.hpp"

using namespace yotta;

int main() {
  const double save = 10, down = 60;  // seconds of a snapshot, and of a restart
  const double mean = seconds_between_failures(10'000);
  const double daly = best_intervals(save, mean).daly;
  // The share of the time that trains for good, in a simulated run with 3000 failures.
  const auto goodput = [&](double interval) {
    const std::vector<FailureSource> nodes = {{"node", mean}};
    return simulate_run({interval, save, down}, nodes, 3000 * mean, 1).goodput();
  };
  const double best = goodput(daly), often = goodput(daly / 4), seldom = goodput(4 * daly);
  fmt::print("a snapshot every {:.0f} s: {:.1f}% of the time trains for good\n", daly, 100 * best);
  fmt::print("four times as often {:.1f}%, a quarter as often {:.1f}%\n", 100 * often,
             100 * seldom);
  const bool right =
      best > often && best > seldom && best > 0.99 * expected_goodput({daly, save, down}, mean);
  if (!right) fmt::print("Daly's interval must be the best of the three, and as expected\n");
  return right ? 0 : 1;
}
