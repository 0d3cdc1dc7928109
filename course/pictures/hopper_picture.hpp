// The last rungs of the tensor-core ladder as timelines of one SM that makes two tiles of C: when
// copies, tensor cores and stores are at work.
//
//     wgmma        copy ## copy ## copy ##  ...  store
//     TMA          copy ## ## ## ##  store
//     producer     ...
//     persistent   copy ######## ########
//                                store    store
//
// A model, not a measurement. Times are in multiplications of a step: a copy comes 2 after its
// start, a store takes 2, a barrier of the block 1/4; the ring has 3 places and a tile 4 steps.
// Lesson 04 shows it. The file course/pictures/hopper_rungs.svg is what
// `./yotta lesson 04 -- --measure 0 --draw 1` writes.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "course/pictures/svg.hpp"

namespace yotta {

struct HopperTimeline {
  struct Span {
    double begin, end;
  };
  const char* name;
  int places;  // for the tiles of a step
  std::vector<Span> copies, multiplies, stores;
  double end() const { return stores.back().end; }
  // The part of the time in which tensor cores are at work.
  double share() const { return static_cast<double>(multiplies.size()) / end(); }
};

namespace hopper_picture {

inline constexpr int tiles = 2, steps = 4, places = 3;
inline constexpr double copy_time = 2, store_time = 2, barrier_time = 0.25;

// All threads copy, then four warps multiply, in turn.
inline HopperTimeline in_turn(const char* name) {
  HopperTimeline all{name, 1, {}, {}, {}};
  double now = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    for (int step = 0; step < steps; ++step, now += copy_time + 1) {
      all.copies.push_back({now, now + copy_time});
      all.multiplies.push_back({now + copy_time, now + copy_time + 1});
    }
    all.stores.push_back({now, now + store_time});
    now += store_time;
  }
  return all;
}

// A ring of places; `between` two steps passes some time. A block that stays does not wait for its
// stores, and its ring knows no tiles.
inline HopperTimeline in_a_ring(const char* name, double between, bool stays) {
  HopperTimeline all{name, places, {}, {}, {}};
  std::vector<double> freed;
  double now = 0, first = 0;  // for the next multiplication; of this block
  for (int tile = 0; tile < tiles; ++tile) {
    for (int i = 0; i < steps; ++i) {
      const bool waits = (stays ? tile * steps + i : i) >= places;
      const double copied = copy_time + (waits ? freed[freed.size() - places] : first);
      all.copies.push_back({copied - copy_time, copied});
      const double begin = std::max(now, copied);
      all.multiplies.push_back({begin, begin + 1});
      freed.push_back(now = begin + 1 + between);
    }
    all.stores.push_back({now, now + store_time});
    if (!stays) first = now += store_time;
  }
  return all;
}

inline std::vector<HopperTimeline> timelines() {
  return {in_turn("wgmma"), in_a_ring("TMA", barrier_time, false), in_a_ring("producer", 0, false),
          in_a_ring("persistent", 0, true)};
}

inline constexpr double left = 150, top = 76, unit = 26, row = 92;
inline constexpr const char *copy_fill = "#77aadd", *multiply_fill = "#ee8866",
                            *store_fill = "#44bb99";

inline std::string bar(const HopperTimeline::Span& span, double y, double height,
                       const char* fill) {
  return svg::box(left + unit * span.begin, y, unit * (span.end - span.begin), height, fill,
                  "#fff");
}

// Copies in the lanes of their places, below them the multiplications, then the stores.
inline std::string lanes(const HopperTimeline& each, double y) {
  std::string all = svg::box(left, y, unit * each.end(), 68, "#f4f4f4", "#ddd");
  for (int i = 0; i < std::ssize(each.copies); ++i)
    all += bar(each.copies[static_cast<size_t>(i)],
               y + 2 + 8 * static_cast<double>(i % each.places), 8, copy_fill);
  for (const auto& span : each.multiplies) all += bar(span, y + 28, 20, multiply_fill);
  for (const auto& span : each.stores) all += bar(span, y + 50, 16, store_fill);
  return all;
}

}  // namespace hopper_picture

inline std::string hopper_svg() {
  using namespace hopper_picture;
  const char* const title = "Two tiles of C on one SM: four rungs";
  std::string all = svg::paper(900, 466, title) +
                    svg::text(20, 28, title, "start", svg::ink, 15, true) +
                    svg::text(20, 48,
                              "A model: in multiplications of a step a copy takes 2, a store 2, a "
                              "barrier 1/4; a ring of 3 places, 4 steps a tile.");
  double y = top;
  for (const HopperTimeline& each : timelines()) {
    all += lanes(each, y) + svg::text(20, y + 24, each.name, "start", svg::ink, 13, true) +
           svg::text(20, y + 43, fmt::format("busy: {:.0f}%", 100 * each.share()));
    y += row;
  }
  y += 6;
  return all + svg::box(left, y - 10, 12, 12, copy_fill) +
         svg::text(left + 18, y, "tiles of A and B come") +
         svg::box(left + 190, y - 10, 12, 12, multiply_fill) +
         svg::text(left + 208, y, "tensor cores multiply") +
         svg::box(left + 380, y - 10, 12, 12, store_fill) +
         svg::text(left + 398, y, "a tile of C goes to memory") + "</svg>\n";
}

}  // namespace yotta
