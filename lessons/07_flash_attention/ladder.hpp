// The part of lesson 07 that runs kernels: the ladder counted, bytes against tiles, decoding.
#pragma once

#include "counts.hpp"
#include "course/lesson/lesson.hpp"

namespace yotta {

inline void ladder(Lesson& lesson, int T) {
  lesson.section(fmt::format("The ladder, counted: one head of {} queries and keys, d = 64", T));
  lesson.say("{:<21} {:>9} {:>9} {:>12} {:>12} {:>8} {:>6} {:>11}", "", "read", "written",
             "of q's size", "at T = 8192", "beside", "mma", "difference");
  for (const LadderCounts& rung : count_ladder(T)) {
    const auto bytes = static_cast<double>(rung.read + rung.written);
    lesson.say("{:<21} {:>9} {:>9} {:>12.1f} {:>12.0f} {:>8} {:>6} {:>11}", rung.name, rung.read,
               rung.written, bytes / (4.0 * T * 64),
               static_cast<double>(rung.at_8192) / (4.0 * 8192 * 64), rung.extra, rung.mma,
               rung.difference < 1e-5   ? "< 1e-5"
               : rung.difference < 0.01 ? "< 0.01"
                                        : "too large");
    lesson.number(rung.name + ".bytes", bytes);
    lesson.number(rung.name + ".expected", static_cast<double>(rung.expected));
  }
}

inline void bytes_against_tiles(Lesson& lesson) {
  const KernelTraffic counted = count_traffic(), expected = traffic_by_formula();
  lesson.section(fmt::format("What moves, in sizes of q, by tile: one head of {} tokens, d = {}",
                             traffic_shape.Tq, traffic_shape.d));
  lesson.say("{:>13} {:>7} {:>9} {:>9} {:>11} {:>17} {:>9}", "", "M", "counted", "formula",
             "12 T d / M", "loops exchanged", "formula");
  lesson.say("{:>13} {:>7} {:>9.1f} {:>9.1f}", "three kernels", "any", counted.unfused,
             expected.unfused);
  for (size_t i = 0; i < counted.tiles.size(); ++i) {
    const TileTraffic &tile = counted.tiles[i], &formula = expected.tiles[i];
    std::string exchanged;
    if (tile.exchanged > 0)
      exchanged = fmt::format(" {:>17.1f} {:>9.1f}", tile.exchanged, formula.exchanged);
    lesson.say("{:>13} {:>7} {:>9.1f} {:>9.1f} {:>11.1f}{}", fmt::format("tiles of {}", tile.side),
               tile.M, tile.flash, formula.flash, traffic_of_memory(tile.M), exchanged);
    lesson.number(fmt::format("tile.{}.flash", tile.side), tile.flash);
    lesson.number(fmt::format("tile.{}.exchanged", tile.side), tile.exchanged);
  }
}

inline void causal_tiles(Lesson& lesson) {
  lesson.section("Tiles of 32 x 32 scores that are computed");
  lesson.say("{:>7} {:>6} {:>8} {:>12}", "tokens", "all", "causal", "n (n + 1) / 2");
  for (const int T : {64, 128}) {
    const VisitedTiles tiles = count_visited_tiles(T);
    const int n = T / 32;
    lesson.say("{:>7} {:>6} {:>8} {:>12}", T, tiles.all, tiles.causal, n * (n + 1) / 2);
  }
}

inline void decoding(Lesson& lesson, int Tk) {
  lesson.section(fmt::format(
      "One new token, 8 query heads, {} keys of d = 64: bytes of keys and values read", Tk));
  lesson.say("{:<14} {:>4} {:>9} {:>17} {:>18} {:>16}", "", "Hkv", "cache", "a block a head",
             "a block a group", "4 splits' merge");
  for (const DecodingCounts& counts : count_decoding(Tk)) {
    const char* name = counts.Hkv == 8   ? "multi-head"
                       : counts.Hkv == 1 ? "multi-query"
                                         : "grouped-query";
    lesson.say("{:<14} {:>4} {:>9} {:>17} {:>18} {:>16}", name, counts.Hkv, counts.cache,
               counts.by_head, counts.packed, counts.merge);
    lesson.number(fmt::format("decoding.{}", counts.Hkv), static_cast<double>(counts.packed));
  }
}

inline void count_kernels(Lesson& lesson) {
  ladder(lesson, 64);
  bytes_against_tiles(lesson);
  causal_tiles(lesson);
  decoding(lesson, 128);
}

}  // namespace yotta
