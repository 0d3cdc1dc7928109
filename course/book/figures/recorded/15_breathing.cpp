// A pass of Fsdp on four ranks, moment by moment: lesson 15's picture, for other links.
#include <cmath>

#include "course/book/figures/recorded/record.hpp"
#include "course/pictures/memory_pictures.hpp"

namespace book {
namespace {

enum Kind { whole, gather, forward, input, weight, gradients, sum, reduction };

// The pass of these settings; the last one is kept, since a reader's time moves most.
const yotta::FsdpLife& life_of(double gather, bool prefetch) {
  static std::pair<double, bool> key{0, false};
  static yotta::FsdpLife life;
  if (key != std::pair{gather, prefetch}) life = yotta::fsdp_life({gather, prefetch});
  key = {gather, prefetch};
  return life;
}

double drawn(double seconds) { return std::round(seconds * 1e3) / 1e3; }

void add(Row& row, double unit, Kind kind, const yotta::Span& when) {
  row.values.insert(row.values.end(), {unit, double(kind), drawn(when.begin), drawn(when.end)});
}

Row spans(const yotta::FsdpLife& life) {
  Row row{"spans"};
  for (size_t i = 0; i < life.units.size(); ++i) {
    const auto u = static_cast<double>(i);
    const yotta::FsdpLife::Unit& unit = life.units[i];
    for (const yotta::Span& each : unit.whole) add(row, u, whole, each);
    for (const yotta::Span& each : unit.gathers) add(row, u, gather, each);
    for (const auto& [what, when] : unit.computing)
      add(row, u, what == 'F' ? forward : what == 'I' ? input : weight, when);
    add(row, u, gradients, unit.gradients);
    add(row, u, sum, unit.sum);
    add(row, u, reduction, unit.reduction);
  }
  return row;
}

Data data(const std::vector<double>& at) {
  const yotta::FsdpLife& life = life_of(at[0], at[1] > 0);
  const double now = at[2] / 100 * life.seconds, unit = static_cast<double>(life.unit_bytes);
  Row curve{"borrowed"};
  double borrowed = 0;
  for (const yotta::Held& each : life.borrowed) {
    const double units = static_cast<double>(each.bytes) / unit;
    if (each.when.begin <= now && now < each.when.end) borrowed = units;
    if (each.when.end > each.when.begin)
      curve.values.insert(curve.values.end(),
                          {drawn(each.when.begin), drawn(each.when.end), units});
  }
  Data made;
  made.numbers = {{"time", "s", now},
                  {"borrowed now", "units", borrowed},
                  {"at the peak", "units", static_cast<double>(most(life.borrowed)) / unit},
                  {"the pass takes", "s", life.seconds, 4}};
  made.rows = {{"sizes", {now, life.seconds, double(life.units.size()), double(life.ranks)}, {}},
               spans(life),
               curve};
  made.code = fmt::format(
      "yotta::Fsdp fsdp(net, world, {{.layers_per_unit = 1, .prefetch = {}}});\n"
      "// at the peak: fsdp_peak_elements({}, unit); seconds: fsdp_seconds({}, {{1, 2, {}, {}}}, "
      "{}, false)",
      at[1] > 0, life.ranks, life.units.size(), at[0], at[0], at[1] > 0);
  return made;
}

}  // namespace

Figure breathing_figure() {
  return {
      "15_breathing",
      "FSDP breathes: a unit is gathered, used and freed. How much is borrowed at each moment, "
      "and what does prefetching add? Four units on four ranks, forward 1 s, run when this page "
      "was made. Play it, or move through time.",
      {{"a gather", "seconds", {0.25, 0.5, 1, 2}, 1},
       choice("a unit is gathered", {"when reached", "one unit ahead"}, 1),
       {"time", "%", counted(0, 100, 2), 27}},
      data};
}

}  // namespace book
