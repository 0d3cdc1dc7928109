#include "course/book/figures/figure.hpp"
#include "yotta/resilience/failure_arithmetic.hpp"

namespace book {
namespace {

Data data(const std::vector<double>& at) {
  const double mean = yotta::seconds_between_failures(at[0], at[1]);
  const yotta::SavingRun run{at[2] * 60, at[3], at[4] * 60};
  const double goodput = yotta::expected_goodput(run, mean);
  Data made;
  double best = 0, most = 0;
  const Row by_interval =
      curve("goodput by interval", multiplied(0.5, 1024, std::pow(2.0, 0.25)), [&](double minutes) {
        const double share = yotta::expected_goodput({minutes * 60, run.save, run.down}, mean);
        if (share > most) most = share, best = minutes;
        return std::vector{share};
      });
  made.numbers = {{"a failure every", "hours", mean / 3600},
                  {"goodput", "%", 100 * goodput},
                  {"at the best interval", "%", 100 * most},
                  {"which is about", "minutes", best}};
  made.rows = {{"chosen", {at[2], goodput}, {}}, by_interval};
  made.code = fmt::format(
      "const double mean = yotta::seconds_between_failures({}, {});\n"
      "const yotta::SavingRun run{{{}, {}, {}}};\n"
      "fmt::print(\"{{}}\\n\", yotta::expected_goodput(run, mean));",
      at[0], at[1], run.interval, run.save, run.down);
  return made;
}

}  // namespace

Figure failures_figure() {
  return {
      "30_failures",
      "Save too often and the run waits for snapshots; too seldom and each failure costs hours. "
      "Where is the best interval, and what moves it?",
      {{"nodes", "", multiplied(8, 16384, 2), 8},
       {"failures in 1000 days of a node", "", {1, 2, 3, 5, 7, 10, 15, 20, 40}, 5},
       {"between two snapshots",
        "minutes",
        {1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 240, 480},
        6},
       {"a snapshot", "seconds", {0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600}, 5},
       {"from a failure to the next step", "minutes", {0.5, 1, 2, 5, 10, 15, 30, 60}, 4}},
      data};
}

}  // namespace book
