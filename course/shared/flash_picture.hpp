// Flash attention as two pictures: which scores are computed, as CausalMask hands them out, and
// what lies in which memory while a tile of queries walks over its keys; and what forward moves
// against the size of the fast memory.
#pragma once

#include <cmath>
#include <string>

#include "course/shared/svg.hpp"
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

// ---- bytes against the fast memory --------------------------------------------------------------

// Bytes in bf16 that a fast memory holds for a tile of BQ queries: q, o, k and v of 16 keys, and
// the scores.
constexpr double fast_bytes(int64_t d, int64_t BQ) {
  return 2 * static_cast<double>((2 * BQ + 32) * d + BQ * 16);
}

namespace flash_bytes_parts {
inline constexpr int64_t tokens = 8192;
inline constexpr double left = 90, top = 70, width = 560, height = 300;
// Fast memory from 8 KiB to 1 MiB, moved from 2 MB to 8 GB: both by powers.
inline double x_of(double bytes) { return left + width * std::log2(bytes / 8192) / 7; }
inline double y_of(double moved) { return top + height * (1 - std::log10(moved / 2e6) / 3.6); }

inline std::string curve(int64_t d, const char* color) {
  std::string points;
  for (int64_t BQ = 2; BQ <= 4096; BQ += std::max<int64_t>(1, BQ / 8)) {
    const double fast = fast_bytes(d, BQ);
    const double moved = 2 * static_cast<double>(flash_numbers_moved(tokens, d, BQ));
    if (fast < 8192 || fast > 1 << 20 || moved > 8e9) continue;
    points += fmt::format("{}{:.1f} {:.1f}", points.empty() ? "M" : "L", x_of(fast), y_of(moved));
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"/>\n", points,
                     color);
}
inline std::string level(double moved, const char* color, const std::string& words) {
  return fmt::format(
             "<path d=\"M{:.1f} {:.1f}h{:.1f}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
             "stroke-dasharray=\"6 4\"/>\n",
             left, y_of(moved), width, color) +
         svg::text(left + width + 8, y_of(moved) + 4, words, "start", color);
}
}  // namespace flash_bytes_parts

inline std::string flash_bytes_svg() {
  using namespace svg;
  using namespace flash_bytes_parts;
  const char* const title = "Forward of one head of 8192 tokens, bf16: what is moved";
  const char *const narrow = "#2f6fa7", *const wide = "#c2552d";
  std::string all = paper(900, 450, title) + text(20, 28, title, "start", ink, 15, true) +
                    text(20, 48, "Twice the fast memory, half the bytes: T^2 d^2 / M.") +
                    box(left, top, width, height, "none", "#bbb");
  for (int k = 8; k <= 1024; k *= 2)
    all += text(x_of(1024.0 * k), top + height + 18, fmt::format("{}", k), "middle", ink, 11);
  for (const double mb : {3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0})
    all += text(left - 8, y_of(mb * 1e6) + 4, fmt::format("{:.0f} MB", mb), "end", ink, 11);
  const OpCost plain = attention_plain_cost(DType::bf16, {1, tokens, 1, 1, 128});
  const double once = 2 * static_cast<double>(4 * tokens * 64 + tokens);
  return all + curve(64, narrow) + curve(128, wide) +
         level(plain.bytes_read + plain.bytes_written, ink, "plain attention") +
         level(once, quiet, "q, k, v, o once, d = 64") +
         text(left + 150, y_of(2.2e9), "flash, d = 128", "start", wide, 12, true) +
         text(left + 30, y_of(9e7), "flash, d = 64", "start", narrow, 12, true) +
         text(left + width / 2, top + height + 40,
              "fast memory, KiB: q, o, 16 keys and values, scores", "middle") +
         "</svg>\n";
}

}  // namespace yotta
