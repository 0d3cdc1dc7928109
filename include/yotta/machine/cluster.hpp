// Clusters: which chips there are, and what a message between any two of them costs.
//
// Chips sit in groups that sit in larger groups. Two chips talk over the smallest group that holds
// both:
//
//     ┌──────────── cluster ─────────────┐      level      chips    one way, per chip
//     │ ┌──────── rack ────────┐ ┌─ rack ┐      node           8    NVLink            450 GB/s
//     │ │ ┌─ node ─┐ ┌─ node ─┐│ │ ┌─ nod        rack          16    one switch         50 GB/s
//     │ │ │ 0 .. 7 │ │ 8 .. 15││ │ │ 16 .        pod         3072    two switches       50 GB/s
//     │ │ └────────┘ └────────┘│ │ └─────        cluster    24576    three, 1:7 shared 7.1 GB/s
//     │ └──────────────────────┘ └───────
//
//     a message of N bytes takes  alpha + N beta     alpha: latency, s; beta: 1 / bandwidth, s/byte
//
// A torus is a grid whose rows are rings. Chips talk to their neighbours on each axis. A message to
// any other chip hops from neighbour to neighbour and pays alpha once per hop.
//
// Rank r is chip r. Where a level is oversubscribed, its beta is one chip's share when all chips
// use the level at once. Latencies are on no datasheet. They are assumed here: 1 us inside a node,
// and 2 us more for every tier of switches.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "yotta/machine/chip.hpp"

namespace yotta {

// What a message between two chips costs.
struct Link {
  double alpha = 0;  // seconds
  double beta = 0;   // seconds per byte
  int level = -1;    // of the cluster; -1: a chip to itself

  double seconds(double bytes) const { return alpha + bytes * beta; }
  bool operator==(const Link&) const = default;
};

// Groups of `chips` chips: a node, a rack, ...; a multiple of the level before.
struct Level {
  std::string name;
  int chips;
  double alpha, beta;
};

// Steps between two chips of a torus, the shorter way round on every axis; the first axis counts
// fastest.
inline int torus_hops(const std::vector<int>& axes, int from, int to) {
  int hops = 0;
  for (const int length : axes) {
    const int apart = std::abs(from % length - to % length);
    hops += std::min(apart, length - apart);
    from /= length;
    to /= length;
  }
  return hops;
}

struct Cluster {
  std::string name;
  Chip chip;
  std::vector<Level> levels;  // the smallest group first; the last one holds all chips
  std::vector<int> torus;     // axes of the grid that the first level is; empty: switches
  double gamma = 0;           // seconds per byte reduced inside a collective

  int size() const { return levels.empty() ? 1 : levels.back().chips; }
  // The link between two chips. Errors: the cluster has no such chip.
  Link link(int from, int to, Where where = Where::current()) const {
    if (from < 0 || to < 0 || from >= size() || to >= size())
      fail(where, "{} has chips 0 to {}, not {}", name, size() - 1,
           from < 0 || from >= size() ? from : to);
    return from == to ? Link{} : link_between(from, to);
  }

  // The same for two chips that it has and that are not one.
  Link link_between(int from, int to) const {
    size_t i = 0;
    while (from / levels[i].chips != to / levels[i].chips) ++i;
    const int hops = i == 0 && !torus.empty() ? torus_hops(torus, from, to) : 1;
    return {hops * levels[i].alpha, levels[i].beta, static_cast<int>(i)};
  }
};

// A torus of these axes.
inline Cluster torus(const Chip& chip, std::vector<int> axes) {
  int count = 1;
  for (const int length : axes) count *= length;
  Cluster made{fmt::format("{}x{}", chip.name, count), chip, {}, std::move(axes)};
  made.levels.push_back({"torus", count, 1e-6, 1 / chip.link});
  return made;
}

// Why the links between these chips are not all equal, so that their ranks would not stay in step;
// empty if they are equal. In a torus, a ring of chips will do: rotated by one, every link falls on
// an equal one.
inline std::string unequal_links(const Cluster& cluster, std::span<const int> chips,
                                 Where where = Where::current()) {
  const auto link = [&](int a, int b) { return cluster.link(a, b, where); };
  const auto describe = [&](int a, int b) {
    if (a == b) return fmt::format("chip {} is listed twice", a);
    const Link between = link(a, b);
    return fmt::format("chips {} and {} talk over the {} ({:.3g} s)", a, b,
                       cluster.levels[static_cast<size_t>(between.level)].name, between.alpha);
  };
  std::string found;
  const auto compare = [&](int a, int b, int c, int d) {
    if (found.empty() && (c == d || link(a, b) != link(c, d)))
      found = describe(a, b) + ", " + describe(c, d);
  };
  const size_t p = chips.size();
  if (cluster.torus.empty()) {  // one level: none is further from the first, none nearer to another
    std::vector<int> sorted(chips.begin(), chips.end());
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < p; ++i) compare(chips[0], chips[1], chips[0], chips[i]);
    for (size_t i = 1; i < p; ++i) compare(chips[0], chips[1], sorted[i - 1], sorted[i]);
  } else {
    for (size_t apart = 1; apart < p; ++apart)
      for (size_t i = 0; i < p; ++i)
        compare(chips[0], chips[apart], chips[i], chips[(i + apart) % p]);
  }
  return found;
}

// Seconds of a ring's all_gather of `bytes`: each chip sends to the next one of the list, the last
// to the first, p - 1 times a p-th of the bytes. All begin a step together, so it takes what its
// slowest link takes.
inline double ring_all_gather_seconds(const Cluster& cluster, std::span<const int> chips,
                                      double bytes, Where where = Where::current()) {
  const size_t p = chips.size();
  double seconds = 0;
  for (size_t i = 0; i < p; ++i) {
    const Link next = cluster.link(chips[i], chips[(i + 1) % p], where);
    seconds = std::max(seconds, next.seconds(bytes / static_cast<double>(p)));
  }
  seconds *= static_cast<double>(p - 1);
  return seconds;
}

// `chips` chips of `flops` FLOP/s each, joined by links of `bandwidth`, without latency or
// overhead.
inline Cluster ideal(int chips = 1 << 30, double flops = 1, double bandwidth = no_limit) {
  return {"ideal", ideal_chip(flops), {{"cluster", chips, 0, 1 / bandwidth}}, {}};
}

inline std::vector<Level> switched_levels(const Chip& chip, int count) {
  const int node = std::min(count, chip.domain);
  std::vector<Level> levels = {{"node", node, 1e-6, 1 / chip.link}};
  if (count > node) levels.push_back({"cluster", count, 5e-6, 1 / chip.card});
  return levels;
}

// Chips with switches: nodes of one NVLink domain and, if there is more than one node, a network
// card per chip between them.
inline Cluster switched(const Chip& chip, int count) {
  return {fmt::format("{}x{}", chip.name, count), chip, switched_levels(chip, count), {}};
}

inline std::vector<Level> llama3_levels(const Chip& chip) {
  const double beta = 1 / 50e9;
  return {{"node", 8, 1e-6, 1 / chip.link},
          {"rack", 16, 3e-6, beta},
          {"pod", 3072, 5e-6, beta},
          {"cluster", 24576, 7e-6, 7 * beta}};
}

// The machine of "The Llama 3 Herd of Models" (arXiv 2407.21783, 3.3.1): 24,576 H100, 16 per rack,
// 192 racks per pod with full bandwidth, 8 pods that share 1:7.
inline Cluster llama3_24k() {
  const Chip& chip = chip_named("h100");
  return {"llama3-24k", chip, llama3_levels(chip), {}};
}

// Cities with `chips` H100 each, for workers that seldom talk (parallel/diloco.hpp): four lie on a
// continent, 50 ms apart, and 100 ms from the next four, across an ocean. A chip has 1 Gbit/s to
// other cities.
inline Cluster cities(int count, int chips = 1) {
  const double beta = 8 / 1e9;  // 1 Gbit/s
  const Chip& chip = chip_named("h100");
  const int all = count * chips, continent = std::min(count, 4) * chips;
  return {fmt::format("cities{}x{}", chips > 1 ? std::to_string(chips) : "", count),
          chip,
          {{"city", chips, 1e-6, 1 / chip.link},
           {"continent", continent, 50e-3, beta},
           {"world", all, 100e-3, beta}},
          {}};
}

inline int first_axis(int count, int axes) {
  int length = 1;
  for (int i = 1; static_cast<int64_t>(i) <= count; ++i) {
    int64_t power = 1;
    for (int axis = 0; axis < axes; ++axis) power *= i;
    if (power > count) break;
    if (count % i == 0) length = i;
  }
  return length;
}

// `count` cut into `axes` factors as equal as can be: 256 into 16 x 16, 64 into 4 x 4 x 4.
inline std::vector<int> nearly_cubic(int count, int axes) {
  if (axes == 1) return {count};
  const int length = first_axis(count, axes);
  std::vector<int> rest = nearly_cubic(count / length, axes - 1);
  rest.insert(rest.begin(), length);
  return rest;
}

// A machine by name: "ideal", "llama3-24k", or a chip and how many: "h100x8", "h100x16384",
// "v5px64" (TPUs form a torus); "citiesx8" is cities(8), "cities4x8" has 4 chips in each. Errors:
// no such name; the message says what a name may be.
inline Cluster cluster_named(std::string_view text, Where where = Where::current()) {
  if (text == "ideal") return ideal();
  if (text == "llama3-24k") return llama3_24k();
  const size_t x = text.rfind('x');
  const char* const end = text.data() + text.size();
  int count = 0;
  if (x == text.npos || std::from_chars(text.data() + x + 1, end, count).ptr != end || count < 1)
    fail(where,
         "'{}' is not a machine: give ideal, llama3-24k, or a chip and how many, as h100x8; or "
         "cities, "
         "as citiesx4",
         text);
  if (const std::string_view city = text.substr(0, x); city.starts_with("cities")) {
    int chips = 1;
    const char* const last = city.data() + city.size();
    const auto [read, error] = std::from_chars(city.data() + 6, last, chips);
    if (city.size() > 6 && (read != last || chips < 1 || chips > 1024 || count > 1024))
      fail(where, "'{}': write citiesx8, or cities4x8 for 4 chips in each of 8", text);
    return cities(count, chips);
  }
  const Chip& chip = chip_named(text.substr(0, x), where);
  if (chip.links == 1) return switched(chip, count);
  return torus(chip, nearly_cubic(count, chip.links / 2));
}

}  // namespace yotta
