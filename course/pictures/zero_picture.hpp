// The picture of lesson 14: what each of four ranks holds of a model, with DDP and in the three
// stages of ZeRO, in the 2 + 2 + 12 bytes of a parameter that the paper counts.
//
//              rank 0      rank 1      rank 2      rank 3
//     DDP      ##|##|####  ##|##|####  ##|##|####  ##|##|####   all of it, four times
//     stage 3  #.|#.|#...  .#|.#|.#..  ..|..|..#.  ..|..|...#   each number once
//
// The file in course/pictures/ is what `./yotta lesson 14 -- --draw 1` writes.
#pragma once

#include <array>
#include <string>

#include "course/pictures/svg.hpp"
#include "yotta/parallel/zero.hpp"

namespace yotta {

namespace zero_picture_parts {

inline constexpr int ranks = 4;
inline constexpr double left = 96, rank_width = 168, apart = 10, height = 30;

struct Kind {
  const char* name;
  int64_t bytes;
  int cut_from;  // the stage from which on a rank holds its part alone
  const char* color;
};
inline constexpr std::array<Kind, 3> kinds = {
    {{"optimizer: master copy and two moments, 12 bytes", zero_paper_bytes.optimizer, 1,
      svg::rank_colors[3]},
     {"gradients, 2 bytes", zero_paper_bytes.gradients, 2, svg::rank_colors[1]},
     {"weights, 2 bytes", zero_paper_bytes.weights, 3, svg::rank_colors[0]}}};

// White: what there is. On it, in colour, what the rank holds.
inline std::string held_by(int rank, int stage, double x, double y) {
  std::string all, held;
  for (const Kind& kind : kinds) {
    const double width = rank_width * static_cast<double>(kind.bytes) / 16;
    const double part = stage >= kind.cut_from ? width / ranks : width;
    all += svg::box(x, y, width, height, "#fff", "#ccc");
    held += svg::box(x + (part < width ? rank * part : 0), y, part, height, kind.color);
    x += width;
  }
  return all + held;
}

inline std::string row(int stage, double y) {
  std::string svg = svg::text(20, y + 20, stage == 0 ? "DDP" : fmt::format("stage {}", stage),
                              "start", svg::ink, 13, true);
  for (int rank = 0; rank < ranks; ++rank)
    svg += held_by(rank, stage, left + rank * (rank_width + apart), y);
  constexpr int64_t N = 1024;  // divides by the ranks
  const auto held = static_cast<double>(zero_bytes_held(stage, ranks, N, zero_paper_bytes)) / N;
  return svg + svg::text(884, y + 20, fmt::format("{} N", held), "end", svg::ink, 13, true);
}

}  // namespace zero_picture_parts

inline std::string zero_svg() {
  namespace parts = zero_picture_parts;
  std::string svg = svg::paper(900, 286, "What four ranks hold: DDP and the stages of ZeRO");
  svg += svg::text(20, 28, "What four ranks hold of N parameters", "start", svg::ink, 15, true);
  svg += svg::text(884, 56, "bytes a rank", "end");
  for (int rank = 0; rank < parts::ranks; ++rank)
    svg += svg::text(parts::left + rank * (parts::rank_width + parts::apart), 56,
                     fmt::format("rank {}", rank));
  for (int stage = 0; stage <= 3; ++stage) svg += parts::row(stage, 66 + 44 * stage);
  double x = 20;
  for (const parts::Kind& kind : parts::kinds) {
    svg += svg::box(x, 254, 16, 14, kind.color) + svg::text(x + 22, 266, kind.name);
    x += 52 + 6.6 * static_cast<double>(std::string(kind.name).size());
  }
  return svg + svg::box(x, 254, 16, 14, "#fff", "#ccc") + svg::text(x + 22, 266, "on other ranks") +
         "</svg>\n";
}

}  // namespace yotta
