#include "yotta/core/numbers.hpp"

#include "course/book/figures/figure.hpp"

namespace book {
namespace {

using yotta::NumberFormat;

// A choice is a bit of an fp32: 32 settings of 0 or 1, the sign first.
Data data(const std::vector<double>& bits) {
  uint32_t code = 0;
  for (const double bit : bits) code = code << 1 | (bit > 0 ? 1u : 0u);
  const double x = yotta::value_of(code, yotta::formats::fp32);
  Data made{{{"the number", "", x, 8}}, {}, {}};
  Row rounded{"rounded"}, error{"error"}, fields{"fields"}, drawn{"bits"};
  for (const NumberFormat& f : yotta::formats::all) {
    const double there = yotta::round_to(x, f);
    drawn.words.push_back(yotta::draw_bits(x, f));
    rounded.words.push_back(f.name);
    rounded.values.push_back(there);
    error.values.push_back(x == 0 ? 0 : std::abs(there - x) / std::abs(x));
    made.numbers.push_back({fmt::format("in {}", f.name), "", there, 8});
  }
  made.rows = {rounded, error, drawn};
  made.code = fmt::format(
      "const double x = yotta::value_of(0x{:08x}, yotta::formats::fp32);\n"
      "for (const yotta::NumberFormat& f : yotta::formats::all)\n"
      "  fmt::print(\"{{}} {{}}\\n\", f.name, yotta::round_to(x, f));",
      code);
  return made;
}

}  // namespace

Figure bits_figure() {
  Figure figure{"01_bits",
                "Which bits are the size of a number, which its fineness, and which of both does "
                "each format give up? Flip bits of an fp32 and see what the others make of it.",
                {},
                data};
  const uint32_t pi = yotta::code_of(3.14159265358979, yotta::formats::fp32);
  for (int bit = 31; bit >= 0; --bit) {
    const char* part = bit == 31 ? "sign" : bit >= 23 ? "exponent" : "mantissa";
    figure.settings.push_back({fmt::format("bit {}, {}", bit, part), "", {0, 1}, pi >> bit & 1});
  }
  return figure;
}

}  // namespace book
