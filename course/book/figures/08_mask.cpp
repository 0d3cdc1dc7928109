#include "course/book/figures/figure.hpp"
#include "yotta/nn/block_mask.hpp"

namespace book {
namespace {

constexpr int tokens = 64;

struct Mask {
  int kind, window, document;
  bool operator()(int, int, int q, int kv) const {
    if (kind == 1) return kv <= q;
    if (kind == 2) return kv <= q && q - kv < window;
    if (kind == 3) return kv <= q && q / document == kv / document;
    return true;
  }
};

// The tiles that are computed for a mask, and what they cost.
template <class Seen>
Data tiles_of(const Seen& mask, int tile) {
  const auto made_of =
      yotta::create_block_mask(mask, {.queries = tokens, .keys = tokens, .BQ = tile, .BK = tile});
  Row tiles{"tiles"};
  double visible = 0;
  for (int q = 0; q < tokens; ++q)
    for (int kv = 0; kv < tokens; ++kv) visible += mask(0, 0, q, kv) ? 1 : 0;
  for (int row = 0; row < made_of.rows(); ++row)
    for (int i = made_of.by_row.first[static_cast<size_t>(row)];
         i < made_of.by_row.first[static_cast<size_t>(row) + 1]; ++i)
      tiles.values.insert(
          tiles.values.end(),
          {double(row), double(made_of.by_row.at[static_cast<size_t>(i)]),
           made_of.by_row.kind[static_cast<size_t>(i)] == yotta::TileKind::full ? 1.0 : 0.0});
  const auto computed = static_cast<double>(yotta::computed_scores(made_of));
  const double all = tokens * tokens;
  Data data;
  data.numbers = {{"tiles computed", "", static_cast<double>(yotta::count_tiles(made_of)), 6},
                  {"of them asked for each score", "",
                   static_cast<double>(yotta::count_tiles(made_of, yotta::TileKind::partial)), 6},
                  {"scores computed", "% of all", 100 * computed / all},
                  {"scores computed and not seen", "%",
                   computed > 0 ? 100 * (computed - visible) / computed : 0}};
  data.rows = {tiles};
  return data;
}

// `mask` as C++, and what is to be done with it.
std::string code_of(const std::string& mask, int tile) {
  return fmt::format(
      "{}\n"
      "const auto tiles = yotta::create_block_mask(mask, {{.queries = {}, .keys = {}, .BQ = {}, "
      ".BK = {}}});\n"
      "fmt::print(\"{{}} tiles\\n\", yotta::count_tiles(tiles));",
      mask, tokens, tokens, tile, tile);
}

Data data(const std::vector<double>& at) {
  const int tile = static_cast<int>(at[3]);
  const Mask mask{static_cast<int>(at[0]), static_cast<int>(at[1]), static_cast<int>(at[2])};
  Data data = tiles_of(mask, tile);
  data.rows.push_back({"seen",
                       {tokens, static_cast<double>(tile), static_cast<double>(mask.kind),
                        static_cast<double>(mask.window), static_cast<double>(mask.document)},
                       {}});
  const std::string sees = mask.kind == 1   ? "kv <= q"
                           : mask.kind == 2 ? fmt::format("kv <= q && q - kv < {}", mask.window)
                           : mask.kind == 3
                               ? fmt::format("kv <= q && q / {0} == kv / {0}", mask.document)
                               : "q >= 0 && kv >= 0";
  data.code = code_of(
      fmt::format("const auto mask = [](int, int, int q, int kv) {{ return {}; }};", sees), tile);
  return data;
}

// A painted mask: squares of 8 queries and 8 keys, a setting of 0 or 1 for each; the tile last.
constexpr int squares = 8, square = tokens / squares;

Data painted_data(const std::vector<double>& at) {
  const auto mask = [&](int, int, int q, int kv) {
    return at[static_cast<size_t>(q / square * squares + kv / square)] > 0;
  };
  const int tile = static_cast<int>(at.back());
  Data data = tiles_of(mask, tile);
  Row seen{"seen", {tokens, double(tile), square}, {}};
  std::string rows;
  for (size_t row = 0; row < squares; ++row) {
    std::string bits;
    for (size_t i = 0; i < squares; ++i) bits += at[row * squares + i] > 0 ? '1' : '0';
    seen.values.insert(seen.values.end(), at.begin() + static_cast<long>(row * squares),
                       at.begin() + static_cast<long>((row + 1) * squares));
    rows += fmt::format("{}\"{}\"", row == 0 ? "" : ", ", bits);
  }
  data.rows.push_back(seen);
  data.code = code_of(
      fmt::format("const char* const seen[] = {{{}}};\n"
                  "const auto mask = [&](int, int, int q, int kv) {{ return seen[q / {}][kv / {}] "
                  "== '1'; }};",
                  rows, square, square),
      tile);
  return data;
}

}  // namespace

Figure mask_figure() {
  return {"08_mask",
          "Which share of the scores must be computed when a mask hides most of them, and what do "
          "large tiles cost?",
          {choice("mask", {"none", "causal", "window", "documents"}, 2),
           {"window", "tokens", {2, 4, 8, 12, 16, 24, 32, 48}, 4},
           {"document", "tokens", {4, 8, 12, 16, 24, 32}, 3},
           {"tile", "tokens", {1, 2, 4, 8, 16, 32}, 3}},
          data};
}

Figure paint_figure() {
  Figure figure{"08_paint",
                "Paint a mask: each square is 8 queries and 8 keys. Which shapes need few tiles, "
                "and when does a larger tile compute much that nobody sees?",
                {},
                painted_data};
  for (int row = 0; row < squares; ++row)
    for (int i = 0; i < squares; ++i)
      figure.settings.push_back(
          {fmt::format("queries from {}, keys from {}", row * square, i * square),
           "",
           {0, 1},
           i <= row && row - i < 3 ? 1u : 0u});
  figure.settings.push_back({"tile", "tokens", {4, 8, 16, 32}, 2});
  return figure;
}

}  // namespace book
