#include "course/book/figures/figure.hpp"
#include "yotta/machine/roofline.hpp"
#include "yotta/nn/flash_attention.hpp"

namespace book {
namespace {

constexpr int64_t heads = 32;

yotta::AttentionSizes sizes_of(int64_t T, int64_t H, int64_t d) { return {1, T, H, H, d}; }
// What a layer keeps for backward in bf16: all probabilities, or a number for each query in f32.
double kept_plain(int64_t T, int64_t d) {
  return 2 * static_cast<double>(yotta::score_numbers(sizes_of(T, heads, d)));
}
double kept_flash(int64_t T) { return 4 * static_cast<double>(heads * T); }

Data data(const std::vector<double>& at) {
  const auto T = static_cast<int64_t>(at[0]), d = static_cast<int64_t>(at[1]);
  const auto BQ = static_cast<int64_t>(at[2]);
  const yotta::OpCost plain = yotta::attention_plain_cost(yotta::DType::bf16, sizes_of(T, 1, d));
  const double plain_moves = plain.bytes_read + plain.bytes_written;
  const double flash_moves = 2 * static_cast<double>(yotta::flash_numbers_moved(T, d, BQ));
  const yotta::Chip& chip = yotta::chip_named("h100");
  Data made;
  made.numbers = {{"plain attention keeps", "GB", kept_plain(T, d) / 1e9},
                  {"flash attention keeps", "MB", kept_flash(T) / 1e6},
                  {"plain moves, of a head", "MB", plain_moves / 1e6},
                  {"flash moves, of a head", "MB", flash_moves / 1e6},
                  {"FLOPs a byte, plain", "", plain.flops / plain_moves},
                  {"FLOPs a byte, flash", "", plain.flops / flash_moves},
                  {"and the chip asks for", "", yotta::roofline_of(chip).ridge()}};
  const Row by_tokens = curve("GB kept by tokens", multiplied(512, 131072, 2), [&](double each) {
    const auto t = static_cast<int64_t>(each);
    return std::vector{kept_plain(t, d) / 1e9, kept_flash(t) / 1e9};
  });
  made.rows = {
      {"sizes", {at[0], at[2], kept_plain(T, d) / 1e9, kept_flash(T) / 1e9, chip.memory / 1e9}, {}},
      by_tokens};
  made.code = fmt::format(
      "const auto plain = yotta::attention_plain_cost(yotta::DType::bf16, {{1, {0}, 1, 1, {1}}});\n"
      "fmt::print(\"{{}} bytes\\n\", plain.bytes_read + plain.bytes_written);\n"
      "fmt::print(\"{{}} bytes\\n\", 2 * yotta::flash_numbers_moved({0}, {1}, {2}));",
      T, d, BQ);
  return made;
}

}  // namespace

Figure flash_figure() {
  return {"07_flash",
          "Plain attention keeps T x T numbers of each head. How long may a sequence become before "
          "one layer of 32 heads fills an H100, and what is left of T x T with tiles?",
          {{"T, tokens", "", multiplied(512, 131072, 2), 5},
           {"d, width of a head", "", {32, 64, 128, 256}, 2},
           {"BQ, queries of a tile", "", multiplied(16, 512, 2), 3}},
          data};
}

}  // namespace book
