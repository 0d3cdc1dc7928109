#include <algorithm>

#include "course/book/figures/figure.hpp"
#include "yotta/parallel/revolve.hpp"

namespace book {
namespace {

Data data(const std::vector<double>& at) {
  const auto l = static_cast<int64_t>(at[0]), s = static_cast<int64_t>(at[1]);
  const yotta::ReplayActions actions = yotta::revolve_schedule(l, s);
  const auto upto = static_cast<size_t>(at[2] / 100 * static_cast<double>(actions.size()));
  Row done{"actions"};
  for (const yotta::ReplayAction& each : actions)
    done.values.insert(done.values.end(),
                       {static_cast<double>(each.kind), static_cast<double>(each.layer)});
  Data made;
  made.rows = {{"sizes", {at[0], at[1], static_cast<double>(upto)}, {}}, done};
  made.numbers = {
      {"layers run again", "", static_cast<double>(yotta::forward_runs(actions)), 6},
      {"a layer again, at most", "times", static_cast<double>(yotta::revolve_repetitions(l, s)), 6},
      {"inputs kept at once, at most", "", static_cast<double>(std::min(l, s)), 6},
      {"FLOPs of a step", "times without",
       1 + static_cast<double>(yotta::forward_runs(actions)) / (3 * static_cast<double>(l))}};
  made.code = fmt::format(
      "const yotta::ReplayActions actions = yotta::revolve_schedule({}, {});\n"
      "fmt::print(\"{{}}\\n\", yotta::str(actions));\n"
      "fmt::print(\"{{}} layers run again\\n\", yotta::forward_runs(actions));",
      l, s);
  return made;
}

}  // namespace

Figure revolve_figure() {
  return {"17_revolve",
          "How few inputs can be kept, and what does each one less cost? Scrub through time and "
          "watch which are there.",
          {{"l, layers", "", counted(2, 24), 10},
           {"s, inputs that may be kept", "", counted(1, 12), 2},
           {"time", "%", counted(0, 100, 1), 50}},
          data};
}

}  // namespace book
