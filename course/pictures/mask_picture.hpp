// Lesson 08's masks as pictures: scores as dots in their tiles, as create_block_mask finds them.
//
//     [###]            ### full: every score is seen, the mask is not asked again
//     [## ][##.]       ##. partial: the mask is asked for each score
//          [###]           white: empty, not computed
//
// The file in course/pictures/ is what `./yotta lesson 08 -- --draw 1` writes.
#pragma once

#include "course/pictures/svg.hpp"
#include "yotta/nn/block_mask.hpp"

namespace yotta {

namespace mask_picture_parts {
inline constexpr int length = 48, tile = 6;  // positions of a sequence, of a tile
inline constexpr double dot = 5;             // pixels of a score
inline constexpr const char *full = "#4477aa", *partial = "#cfe0ef", *seen = "#77aadd";

// The runs of scores that query q of a partial tile sees.
template <class Mask>
std::string seen_scores(const Mask& mask, double x, double y, int q, int begin, int end) {
  std::string svg;
  for (int kv = begin, first = begin; kv <= end; ++kv) {
    if (kv < end && mask(0, 0, q, kv)) continue;
    if (kv > first)
      svg += svg::box(x + dot * first, y + dot * q, dot * (kv - first), dot, seen, "none");
    first = kv + 1;
  }
  return svg;
}

// One mask with its name, its line of C++, and its counts.
template <class Mask>
std::string panel(double x, double y, const char* name, const char* code, const Mask& mask) {
  const auto tiles =
      create_block_mask(mask, {.queries = length, .keys = length, .BQ = tile, .BK = tile});
  std::string svg = svg::text(x, y - 24, name, "start", svg::ink, 13, true) +
                    svg::text(x, y - 8, code, "start", svg::quiet, 11);
  for (int row = 0; row < tiles.rows(); ++row)
    for (int i = tiles.by_row.first[row]; i < tiles.by_row.first[row + 1]; ++i) {
      const int column = tiles.by_row.at[i];
      const bool is_full = tiles.by_row.kind[i] == TileKind::full;
      svg += svg::box(x + dot * tile * column, y + dot * tile * row, dot * tile, dot * tile,
                      is_full ? full : partial, "none");
      for (int q = row * tile; q < (row + 1) * tile && !is_full; ++q)
        svg += seen_scores(mask, x, y, q, column * tile, (column + 1) * tile);
    }
  for (int i = 0; i <= tiles.rows(); ++i) {  // the tiles' edges
    const double at = dot * tile * i, side = dot * length;
    svg += svg::box(x, y + at, side, 0.1, "none", "#ccc") +
           svg::box(x + at, y, 0.1, side, "none", "#ccc");
  }
  return svg +
         svg::text(x, y + dot * length + 17,
                   fmt::format("{} of {} tiles: {} full, {} partial", count_tiles(tiles),
                               tiles.rows() * tiles.columns(), count_tiles(tiles, TileKind::full),
                               count_tiles(tiles, TileKind::partial)),
                   "start", svg::ink, 11);
}
}  // namespace mask_picture_parts

inline std::string mask_tiles_svg() {
  using namespace mask_picture_parts;
  std::string svg = svg::paper(860, 696, "Six masks as tiles of scores");
  svg += svg::text(30, 30, "Masks as tiles: rows are queries, columns are keys", "start", svg::ink,
                   15, true);
  for (double x = 540; const auto& [color, words] :
                       {std::pair{full, "full"}, {partial, "partial"}, {seen, "its seen scores"}}) {
    svg += svg::box(x, 19, 13, 13, color, "none") + svg::text(x + 19, 30, words);
    x += 90;
  }
  int document[length];
  for (int i = 0; i < length; ++i) document[i] = i < 10 ? 0 : i < 31 ? 1 : 2;
  const SameDocument same{document, length};
  const double x[] = {30, 310, 590}, y[] = {100, 420};
  svg += panel(x[0], y[0], "causal", "kv &lt;= q", Causal{});
  svg += panel(x[1], y[0], "window of 12", "kv &lt;= q and q - kv &lt; 12", SlidingWindow{12});
  svg += panel(x[2], y[0], "documents of 10, 21, 17", "and_masks(causal, same document)",
               and_masks(Causal{}, same));
  svg += panel(x[0], y[1], "prefix of 15", "kv &lt; 15 or kv &lt;= q", PrefixLm{15});
  svg += panel(x[1], y[1], "neighbourhood, picture of 8 x 6", "rows and columns at most 1 apart",
               Neighbourhood{8, 1});
  svg += panel(x[2], y[1], "window or first keys", "or_masks(window of 12, first 4)",
               and_masks(Causal{}, or_masks(SlidingWindow{12},
                                            [](int, int, int, int kv) { return kv < 4; })));
  return svg + "</svg>\n";
}

}  // namespace yotta
