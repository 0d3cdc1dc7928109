#include "course/book/figures/figure.hpp"
#include "yotta/machine/chip.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

namespace book {
namespace {

constexpr int64_t layers = 32;
constexpr double parameters = 202e6;  // of a layer of 4096 wide

Data data(const std::vector<double>& at) {
  const double tokens = at[0] * 1024, bandwidth = at[1] * 1e9, ranks = at[2];
  const yotta::Chip& chip = yotta::chip_named("h100");
  const double gather = 2 * parameters * (ranks - 1) / ranks / bandwidth;
  yotta::FsdpTimes times{.gather = gather, .reduce = 2 * gather};
  times.forward = 2 * parameters * tokens / (chip.bf16 / 2);
  times.backward = 2 * times.forward;
  const double prefetched = yotta::fsdp_seconds(layers, times, true, true);
  const double waiting = yotta::fsdp_seconds(layers, times, false, true);
  const double computing = static_cast<double>(layers) * (times.forward + times.backward);
  Data made;
  made.numbers = {{"a step", "ms", prefetched * 1e3},
                  {"without prefetching", "ms", waiting * 1e3},
                  {"computing alone", "ms", computing * 1e3},
                  {"waiting is", "% of the step", 100 * (1 - computing / prefetched)}};
  made.rows = {{"times",
                {times.forward * 1e3, times.gather * 1e3, times.backward * 1e3,
                 (times.reduce + times.gather) * 1e3},
                {}}};
  made.rows.push_back(curve("ms by tokens", multiplied(1, 64, 2), [&](double each) {
    yotta::FsdpTimes t = times;
    t.forward = times.forward * each * 1024 / tokens;
    t.backward = 2 * t.forward;
    return std::vector{1e3 * yotta::fsdp_seconds(layers, t, true, true),
                       1e3 * static_cast<double>(layers) * (t.forward + t.backward)};
  }));
  made.code = fmt::format(
      "const yotta::FsdpTimes t{{.forward = {}, .backward = {}, .gather = {}, .reduce = {}}};\n"
      "fmt::print(\"{{}} s\\n\", yotta::fsdp_seconds({}, t, true, true));\n"
      "fmt::print(\"{{}} s without prefetching\\n\", yotta::fsdp_seconds({}, t, false, true));",
      times.forward, times.backward, times.gather, times.reduce, layers, layers);
  return made;
}

}  // namespace

Figure fsdp_figure() {
  return {
      "15_fsdp",
      "How many tokens must a rank have in a step so that gathering the next layer hides "
      "behind this one? 32 layers of 202 million parameters, H100s that reach half of their peak.",
      {{"tokens of a rank", "thousand", multiplied(1, 64, 2), 2},
       {"bandwidth", "GB/s", {6, 12.5, 25, 50, 100, 200, 450}, 3},
       {"ranks", "", multiplied(2, 1024, 2), 5}},
      data};
}

}  // namespace book
