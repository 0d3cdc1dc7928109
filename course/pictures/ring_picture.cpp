#include "course/pictures/ring_picture.hpp"

#include "course/pictures/svg.hpp"
#include "yotta/parallel/ring_attention.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::box;
using svg::ink;
using svg::rank_colors;
using svg::text;

constexpr int ranks = 4;
constexpr double side = 38, left = 84, top = 112;

// The rank that holds a chunk.
int holder_of(int p, int64_t chunk) {
  for (int rank = 0; rank < p; ++rank)
    for (int64_t i = 0; i < chunks_each(p); ++i)
      if (chunk_of(p, rank, i) == chunk) return rank;
  fail(Where::current(), "no rank of {} holds chunk {}", p, chunk);
}

std::string square_svg(const RingSquare& square) {
  const double x = left + side * static_cast<double>(square.key),
               y = top + side * static_cast<double>(square.query);
  const char* const color = rank_colors[square.rank];
  const std::string step = std::to_string(square.step);
  if (square.query != square.key)
    return box(x, y, side, side, color, "#fff") + text(x + 19, y + 23, step, "middle");
  return fmt::format(
             "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}Z\" fill=\"{4}\" stroke=\"#fff\"/>\n", x, y,
             y + side, x + side, color) +
         text(x + 12, y + 31, step, "middle");
}

std::string triangle() {
  std::string svg = text(left + 4 * side, top - 28, "chunk of keys", "middle");
  svg += text(16, top - 12, "chunk of") + text(16, top + 4, "queries");
  for (int chunk = 0; chunk < 2 * ranks; ++chunk) {
    svg += text(left + side * (chunk + 0.5), top - 8, std::to_string(chunk), "middle");
    svg += text(left - 10, top + side * (chunk + 0.5) + 4, std::to_string(chunk), "end");
  }
  for (const RingSquare& square : ring_squares(ranks)) svg += square_svg(square);
  const double x = left + 8 * side + 12;
  for (int chunk = 0; chunk < 2 * ranks; ++chunk)
    svg += text(x, top + side * (chunk + 0.5) + 4,
                fmt::format("rank {}: {}.5 squares", holder_of(ranks, chunk), chunk), "start", ink,
                11);
  return svg;
}

// "0, 7": the chunks of a rank.
std::string chunks_of(int rank) {
  return fmt::format("{}, {}", chunk_of(ranks, rank, 0), chunk_of(ranks, rank, 1));
}

std::string the_ring(int step) {
  constexpr double x_of[] = {540, 740, 740, 540}, y_of[] = {150, 150, 310, 310};
  constexpr double width = 116, height = 74;
  std::string svg =
      text(698, 100,
           fmt::format("Step {} of 0 to {}: each rank computes with the keys", step, ranks - 1),
           "middle");
  svg += text(698, 116, "that are here, and sends them on meanwhile.", "middle");
  for (int rank = 0; rank < ranks; ++rank) {
    const Ring ring{{}, ranks, rank, 1, ChunkOrder::zigzag};
    const double x = x_of[rank], y = y_of[rank], middle = x + width / 2;
    svg += box(x, y, width, height, rank_colors[rank]) +
           text(middle, y + 20, fmt::format("rank {}", rank), "middle", ink, 13, true) +
           text(middle, y + 40, fmt::format("queries {}", chunks_of(rank)), "middle") +
           text(middle, y + 58, fmt::format("keys {}", chunks_of(ring.source(step))), "middle");
  }
  return svg + arrow(656, 187, 740, 187) + arrow(798, 224, 798, 310) + arrow(740, 347, 656, 347) +
         arrow(598, 310, 598, 224) + text(698, 179, "k, v", "middle") +
         text(698, 364, "k, v", "middle") + text(806, 270, "k, v") + text(590, 270, "k, v", "end");
}

}  // namespace

std::vector<RingSquare> ring_squares(int p) {
  std::vector<RingSquare> squares;
  for (int64_t query = 0; query < chunks_each(p) * p; ++query)
    for (int64_t key = 0; key <= query; ++key) {
      const int rank = holder_of(p, query), from = holder_of(p, key);
      const Ring ring{{}, p, rank, 1, ChunkOrder::zigzag};
      int step = 0;
      while (ring.source(step) != from) ++step;
      squares.push_back({query, key, rank, step});
    }
  return squares;
}

std::string ring_attention_svg() {
  const std::string title =
      fmt::format("One sequence in {} chunks on {} ranks: rank r holds chunks r and {} - r",
                  2 * ranks, ranks, 2 * ranks - 1);
  std::string svg = svg::paper(900, 480, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  double squares = 0;
  for (const RingSquare& each : ring_squares(ranks)) squares += each.seen();
  svg += text(
      20, 48,
      fmt::format(
          "Each rank computes {:.0f} of the {:.0f} squares of the triangle, {:.0f} in each step.",
          squares / ranks, squares, squares / ranks / ranks));
  return svg + triangle() + the_ring(1) + svg::rank_legend(84, 456, ranks) +
         text(440, 456, "number: the step in which the square is computed") + "</svg>\n";
}

}  // namespace yotta
