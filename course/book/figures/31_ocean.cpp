#include "course/book/figures/figure.hpp"
#include "yotta/parallel/latency_wall.hpp"

namespace book {
namespace {

Data data(const std::vector<double>& at) {
  const auto bound_of = [&](int inner) {
    return yotta::largest_run({.run = at[3] * 86400,
                               .latency = at[1] * 1e-3,
                               .workers = static_cast<int>(at[0]),
                               .inner = inner});
  };
  const yotta::LatencyBound bound = bound_of(static_cast<int>(at[2]));
  const double meeting = yotta::meeting_seconds(static_cast<int>(at[0]), at[1] * 1e-3);
  Data made;
  made.numbers = {{"a meeting takes at least", "ms", meeting * 1e3},
                  {"a step, at least", "ms", bound.step * 1e3},
                  {"of it meeting", "%", 100 * meeting / at[2] / bound.step},
                  {"steps in that time", "million", bound.steps / 1e6},
                  {"the largest run", "FLOPs", bound.flops}};
  made.rows = {{"chosen", {at[2], bound.flops}, {}},
               curve("FLOPs by inner steps", multiplied(1, 1024, 2), [&](double inner) {
                 return std::vector{bound_of(static_cast<int>(inner)).flops};
               })};
  made.code = fmt::format(
      "const yotta::LatencyBound bound = yotta::largest_run({{.run = {} * 86400.0, .latency = "
      "{}e-3, .workers = {}, .inner = {}}});\n"
      "fmt::print(\"steps of {{}} s\\n\", bound.step);\n"
      "fmt::print(\"at most {{}} FLOPs\\n\", bound.flops);",
      at[3], at[1], at[0], at[2]);
  return made;
}

}  // namespace

Figure ocean_figure() {
  return {"31_ocean",
          "Light needs time to cross an ocean. How many steps must workers do alone before the "
          "distance no longer limits the run?",
          {{"workers", "", multiplied(2, 1024, 2), 2},
           {"latency between two", "ms", {0.005, 0.05, 0.5, 5, 20, 50, 100, 200, 300}, 6},
           {"inner steps between meetings", "", multiplied(1, 1024, 2), 0},
           {"the run", "days", {7, 30, 60, 90, 180, 365}, 3}},
          data};
}

}  // namespace book
