// The law of lesson 03 as a picture: three tiles of C, and what one step along k reads for each.
//
//              B: one number per column          rows + columns numbers are read
//             +--------+                       for rows x columns products
//     A: one  |  tile  |
//     number  |  of C  |
//     a row   +--------+
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>

#include "course/pictures/svg.hpp"
#include "yotta/core/matmul_ladder.hpp"

namespace yotta {

struct LawTile {
  int rows, columns;
  const char* rung;  // that gives such a tile to a thread
};
inline constexpr std::array<LawTile, 3> law_tiles = {
    {{1, 1, "shared tile"}, {8, 1, "register column"}, {8, 8, "register tile"}}};

namespace tile_picture_parts {
inline constexpr int cell = 16,
                     side = 12;  // pixels of a number; numbers of C that are drawn, each way

inline std::string boxes(int left, int top, int rows, int columns, const char* fill) {
  std::string text;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      text += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#999\"/>\n",
          left + column * cell, top + row * cell, cell, cell, fill);
  return text;
}
inline std::string words(int x, int y, const char* anchor, const std::string& text,
                         const char* style = "") {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     style, text);
}

// One tile in the corner of C, with the numbers of A to its left and those of B above it.
inline std::string panel(const LawTile& tile, int left) {
  const int top = 110, right = left + side * cell / 2, below = top + side * cell + 24;
  const int products = tile.rows * tile.columns;
  return words(right, 52, "middle", fmt::format("{} x {}: {}", tile.rows, tile.columns, tile.rung),
               " font-weight=\"bold\"") +
         boxes(left, top, side, side, "#fff") + boxes(left, top, tile.rows, tile.columns, "#e67") +
         boxes(left - cell - 10, top, tile.rows, 1, "#7ad") +
         boxes(left, top - cell - 10, 1, tile.columns, "#fb6") +
         words(left - 18, top + side * cell - 4, "middle", "A", " font-weight=\"bold\"") +
         words(left + side * cell - 4, top - 14, "end", "B", " font-weight=\"bold\"") +
         words(left + side * cell - 6, top + side * cell - 6, "end", "C", " font-weight=\"bold\"") +
         words(right, below, "middle",
               fmt::format("{} + {} numbers for {} product{}", tile.rows, tile.columns, products,
                           products == 1 ? "" : "s")) +
         words(right, below + 20, "middle",
               fmt::format("{:g} bytes per FLOP", tile_bytes_per_flop(tile.rows, tile.columns)));
}
}  // namespace tile_picture_parts

inline std::string tile_svg() {
  using namespace tile_picture_parts;
  std::string text =
      svg::head(860, 400, "One step along k, for three tiles of C", " font-size=\"13\"") +
      svg::sheet(860, 400);
  text += words(20, 24, "start",
                "One step along k, for one thread: what is read, and how often it is used (fp32)",
                " font-size=\"15\" font-weight=\"bold\"");
  for (size_t i = 0; i < law_tiles.size(); ++i)
    text += panel(law_tiles[i], 60 + 280 * static_cast<int>(i));
  const auto key = [&](int x, const char* fill, const char* what) {
    text +=
        fmt::format(
            "<rect x=\"{}\" y=\"373\" width=\"14\" height=\"14\" fill=\"{}\" stroke=\"#999\"/>\n",
            x, fill) +
        words(x + 20, 385, "start", what);
  };
  key(60, "#7ad", "read of A");
  key(200, "#fb6", "read of B");
  key(340, "#e67", "the tile of C: sums in registers");
  key(620, "#fff", "other numbers of C");
  return text + "</svg>\n";
}

}  // namespace yotta
