// Flash attention as two pictures: which scores are computed, as CausalMask hands them out, and
// what lies in which memory while a tile of queries walks over its keys; and what its kernels move,
// counted, against the size of the fast memory.
#pragma once

#include <cmath>
#include <string>

#include "course/lesson/flash_traffic.hpp"
#include "course/pictures/svg.hpp"
#include "yotta/nn/flash_attention.hpp"

namespace yotta {

// Scores that the tile loops compute for T tokens under a causal mask.
struct ComputedScores {
  int64_t runs = 0, computed = 0, asked = 0;  // asked: in runs in which the mask is looked at
};
inline ComputedScores computed_scores(int64_t T) {
  ComputedScores count;
  for (int64_t begin = 0; begin < T; begin += flash_BQ) {
    const int64_t end = std::min(begin + flash_BQ, T);
    CausalMask{T}.runs(begin, end, [&](int64_t, int64_t n, bool whole) {
      ++count.runs;
      count.computed += (end - begin) * n;
      count.asked += whole ? 0 : (end - begin) * n;
    });
  }
  return count;
}

namespace flash_picture_parts {
inline constexpr int64_t tokens = 1024, shown = 11;  // the tile of queries that is lit
inline constexpr double scale = 0.36, left = 80, top = 96;
inline constexpr const char *whole_fill = "#77aadd", *edge_fill = "#ee8866", *here_fill = "#eedd88";

inline double at(int64_t token) { return scale * static_cast<double>(token); }

inline std::string scores() {
  using namespace svg;
  std::string all = box(left, top, at(tokens), at(tokens), "#f4f4f4", "#bbb");
  for (int64_t begin = 0; begin < tokens; begin += flash_BQ)
    CausalMask{tokens}.runs(begin, begin + flash_BQ, [&](int64_t j, int64_t n, bool whole) {
      all += box(left + at(j), top + at(begin), at(n), at(flash_BQ), whole ? whole_fill : edge_fill,
                 "#fff");
    });
  const double y = top + at(shown * flash_BQ);
  all += box(left, y, at(flash_BK), at(flash_BQ), here_fill, lit, " stroke-width=\"2\"") +
         arrow(left + at(flash_BK) + 4, y + at(flash_BQ) / 2, left + at(3 * flash_BK) - 8,
               y + at(flash_BQ) / 2, true);
  all += text(left, top - 26, "keys: tiles of 256", "start", ink, 12, true) +
         text(left - 10, top + 12, "queries", "end", ink, 12, true) +
         text(left - 10, top + 28, "tiles", "end") + text(left - 10, top + 43, "of 64", "end");
  for (int64_t j = 0; j < tokens; j += flash_BK)
    all += text(left + at(j) + at(flash_BK) / 2, top - 7, fmt::format("{}", j / flash_BK), "middle",
                quiet, 11);
  return all + text(left + at(tokens) - 12, top + 60, "not computed", "end", quiet);
}

inline std::string part(double x, double y, double width, const char* fill, const char* name,
                        const char* shape) {
  using namespace svg;
  return box(x, y, width, 40, fill) + text(x + width / 2, y + 17, name, "middle", ink, 12, true) +
         text(x + width / 2, y + 33, shape, "middle", ink, 11);
}

inline std::string memories() {
  using namespace svg;
  const double x = 484, fast = 96, slow = 384;
  std::string all = box(x, fast, 400, 206, "#fff", "#999") +
                    text(x + 10, fast + 18, "fast memory: a cache, or an SM's shared memory",
                         "start", ink, 12, true) +
                    part(x + 14, fast + 34, 84, here_fill, "q", "(BQ, d)") +
                    part(x + 116, fast + 34, 118, whole_fill, "k, v", "(BK, d) each") +
                    part(x + 252, fast + 34, 134, here_fill, "S, then P", "(BQ, BK)") +
                    part(x + 14, fast + 92, 160, here_fill, "o, m, l", "(BQ, d), (BQ), (BQ)") +
                    text(x + 14, fast + 154, "S = q k',  then row by row m, l and P = e^(S - m)") +
                    text(x + 14, fast + 174, "o = o e^(m_old - m) + P v,  then the next k and v") +
                    text(x + 14, fast + 194, "after the last: O = o / l,  L = m + log l");
  all += box(x, slow, 400, 82, "#fff", "#999") +
         text(x + 10, slow + 18, "slow memory", "start", ink, 12, true) +
         part(x + 14, slow + 30, 84, "#f4f4f4", "Q", "(T, d)") +
         part(x + 116, slow + 30, 118, "#f4f4f4", "K, V", "(T, d) each") +
         part(x + 252, slow + 30, 134, "#f4f4f4", "O, L", "(T, d), (T)");
  all += arrow(x + 56, slow - 4, x + 56, fast + 212) + text(x + 64, 332, "once") +
         arrow(x + 175, slow - 4, x + 175, fast + 212, true) +
         text(x + 183, 332, "once a tile", "start", lit) +
         text(x + 183, 348, "of queries", "start", lit) +
         arrow(x + 319, fast + 212, x + 319, slow - 4) + text(x + 327, 332, "once") +
         text(x + 327, 348, "never S", "start", quiet, 11);
  return all;
}
}  // namespace flash_picture_parts

inline std::string flash_attention_svg() {
  using namespace svg;
  using namespace flash_picture_parts;
  const char* const title = "Flash attention: a tile of queries walks over its keys";
  const ComputedScores count = computed_scores(tokens);
  const double y = 498;
  return paper(900, 540, title) + text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              fmt::format("{} tokens, causal: {:.1f}% of the scores are computed, 50.0% "
                          "are seen.",
                          tokens, 100 * static_cast<double>(count.computed) / (tokens * tokens))) +
         scores() + memories() + box(80, y - 10, 12, 12, whole_fill) +
         text(98, y, "each query sees each key: no mask") + box(330, y - 10, 12, 12, edge_fill) +
         text(348, y, "on the diagonal: the mask is asked") + box(610, y - 10, 12, 12, here_fill) +
         text(628, y, "one tile, at its first keys") +
         text(80, y + 24, "A run of keys ends where the tile's last query sees no more.", "start",
              quiet) +
         "</svg>\n";
}

// ---- what moves, against the fast memory --------------------------------------------------------

namespace flash_bytes_parts {
inline constexpr double left = 90, top = 76, width = 560, height = 300;
inline constexpr const char *flash_color = "#2f6fa7", *exchanged_color = "#c2552d";
// Fast memory from 512 to 16384 numbers, moved from 2 to 100 sizes of q: both by powers.
inline double x_of(int64_t M) { return left + width * std::log2(static_cast<double>(M) / 512) / 5; }
inline double y_of(double moved) {
  return top + height * (1 - std::log(moved / 2) / std::log(50.0));
}

inline std::string point(int64_t M, double moved, const char* color) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", x_of(M),
                     y_of(moved), color);
}
inline std::string line(double x0, double y0, double x1, double y1, const char* color) {
  return fmt::format(
      "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
      "stroke-dasharray=\"6 4\"/>\n",
      x0, y0, x1, y1, color);
}
inline std::string axes() {
  using namespace svg;
  std::string all = box(left, top, width, height, "none", "#bbb");
  for (int64_t M = 512; M <= 16384; M *= 2)
    all += text(x_of(M), top + height + 18, fmt::format("{}", M), "middle", ink, 11);
  for (const int moved : {2, 5, 10, 20, 50, 100})
    all += text(left - 8, y_of(moved) + 4, fmt::format("{} x", moved), "end", ink, 11);
  return all + text(left + width / 2, top + height + 40,
                    "M: numbers in shared memory, by tiles of 8, 16, 32 and 64", "middle");
}
}  // namespace flash_bytes_parts

inline std::string flash_bytes_svg(const KernelTraffic& counted) {
  using namespace svg;
  using namespace flash_bytes_parts;
  const char* const title = "What forward moves, counted in the emulator";
  std::string all = paper(900, 456, title) + text(20, 28, title, "start", ink, 15, true) +
                    text(20, 48,
                         fmt::format("One head of {} tokens, d = {}; in sizes of q. Twice the "
                                     "memory, half of what moves.",
                                     traffic_shape.Tq, traffic_shape.d)) +
                    axes();
  all += line(x_of(512), y_of(traffic_of_memory(512)), x_of(16384), y_of(traffic_of_memory(16384)),
              flash_color) +
         line(left, y_of(counted.unfused), left + width, y_of(counted.unfused), ink);
  for (const TileTraffic& tile : counted.tiles) {
    all += point(tile.M, tile.flash, flash_color) +
           text(x_of(tile.M) + 9, y_of(tile.flash) - 6,
                fmt::format("{} x {}", tile.side, tile.side), "start", flash_color, 11);
    if (tile.exchanged > 0) all += point(tile.M, tile.exchanged, exchanged_color);
  }
  const double x = left + width + 12;
  return all + text(x, y_of(counted.unfused) + 4, "three kernels, counted:") +
         text(x, y_of(counted.unfused) + 20, "Theta(T d + T^2), for any M") +
         text(x, y_of(traffic_of_memory(16384)) + 4, "12 T^2 d^2 / M", "start", flash_color) +
         text(x, y_of(9.5), "blue: FlashAttention", "start", flash_color, 12, true) +
         text(x, y_of(9.5) + 18, "orange: loops exchanged", "start", exchanged_color, 12, true) +
         "</svg>\n";
}

}  // namespace yotta
