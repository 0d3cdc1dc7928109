// Drawings of mma fragments: on a terminal, lane by lane, and as SVG for a page.
//
//     C (16 x 8)                                           the same, lane 5 alone
//           0        2        4        6                        0        2        4        6
//      0 |  0 c0,1   1 c0,1   2 c0,1   3 c0,1             0 |   .        .        .        .
//      1 |  4 c0,1   5 c0,1   6 c0,1   7 c0,1             1 |   .      5 c0,1     .        .
//
// A box is what one lane holds side by side: its number, and which of its elements.
#pragma once

#include <fmt/core.h>

#include <string>

#include "yotta/device/mma_fragments.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Elements of one lane that lie side by side in a row.
struct FragmentBox {
  int lane = 0, first = 0, count = 1;
};

// The box that begins at a cell.
inline FragmentBox box_at(const Fragment& fragment, MatrixCell at) {
  const Holder holder = holder_of(fragment, at);
  FragmentBox box{holder.lane, holder.element};
  for (MatrixCell next = at; ++next.column < fragment.columns; ++box.count)
    if (holder_of(fragment, next) != Holder{box.lane, box.first + box.count}) break;
  return box;
}

// "a0,1" or "b2" or "a4-7": which elements a box holds.
inline std::string elements_text(const Fragment& fragment, const FragmentBox& box) {
  const int last = box.first + box.count - 1;
  const char letter = static_cast<char>(fragment.name - 'A' + 'a');
  if (box.count == 1) return fmt::format("{}{}", letter, box.first);
  return fmt::format("{}{}{}{}", letter, box.first, box.count == 2 ? "," : "-", last);
}

inline constexpr int all_lanes = -1;

// One fragment as text, all lanes or one.
inline std::string draw_fragment(const Fragment& fragment, int lane = all_lanes) {
  std::string text = fmt::format("{} ({} x {})\n", fragment.name, fragment.rows, fragment.columns);
  const int wide = box_at(fragment, {0, 0}).count;  // all boxes are alike
  const int width = wide == 1 ? 7 : 9;
  for (int matrix = 0; matrix < fragment.matrices; ++matrix) {
    std::string line(6, ' ');
    for (int column = 0; column < fragment.columns; column += wide)
      line += fmt::format("{:<{}}", fmt::format("{:>2}", column), width);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    for (int row = 0; row < fragment.rows; ++row) {
      line = fmt::format("{:>3} | ", row);
      for (int column = 0; column < fragment.columns; column += wide) {
        const FragmentBox box = box_at(fragment, {row, column, matrix});
        const std::string mine = fmt::format("{:>2} {}", box.lane, elements_text(fragment, box));
        line += fmt::format("{:<{}}", lane == all_lanes || lane == box.lane ? mine : " .", width);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

// A text in the drawing; `style` holds more attributes.
inline std::string svg_text(int x, int y, const char* anchor, const char* style,
                            const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" {}>{}</text>\n", x, y, anchor,
                     style, text);
}

inline constexpr int svg_cell = 30, svg_edge = 44;

// One box with its corner at (x, y): the lane's number large, its elements small.
inline std::string svg_of_box(const Fragment& fragment, const FragmentBox& box, int x, int y,
                              bool dark) {
  constexpr const char* tints[4][2] = {{"#cfe0f3", "#e4eefa"},
                                       {"#fbdcbf", "#fdecda"},
                                       {"#cfe8cc", "#e5f3e3"},
                                       {"#e3d3ea", "#f0e7f4"}};  // by t, and by g even or odd
  const int width = box.count * svg_cell;
  return fmt::format(
             "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#999\"/>\n",
             x, y, width, svg_cell, dark ? "#1f3a5f" : tints[box.lane % 4][box.lane / 4 % 2]) +
         svg_text(x + 3, y + 13, "start",
                  dark ? "fill=\"#fff\" font-size=\"12\"" : "fill=\"#222\" font-size=\"12\"",
                  std::to_string(box.lane)) +
         svg_text(x + width - 3, y + svg_cell - 4, "end",
                  dark ? "fill=\"#fff\" font-size=\"9\"" : "fill=\"#555\" font-size=\"9\"",
                  elements_text(fragment, box));
}

// A fragment's boxes as SVG with the matrix's corner at (left, top); `lane` stands out.
inline std::string svg_of_fragment(const Fragment& fragment, int left, int top, int lane) {
  std::string svg =
      svg_text(left, top - 20, "start", "font-size=\"14\" font-weight=\"bold\"",
               fmt::format("{} ({} x {})", fragment.name, fragment.rows, fragment.columns));
  for (int column = 0; column < fragment.columns; ++column)
    svg += svg_text(left + column * svg_cell + svg_cell / 2, top - 5, "middle", "fill=\"#777\"",
                    std::to_string(column));
  for (int row = 0; row < fragment.rows; ++row) {
    const int y = top + row * svg_cell;
    svg += svg_text(left - 5, y + svg_cell / 2 + 4, "end", "fill=\"#777\"", std::to_string(row));
    for (int column = 0; column < fragment.columns;) {
      const FragmentBox box = box_at(fragment, {row, column});
      svg += svg_of_box(fragment, box, left + column * svg_cell, y, box.lane == lane);
      column += box.count;
    }
  }
  return svg;
}

// What the boxes say, in the empty corner left of B and above A.
inline std::string svg_of_legend(const MmaShape& shape, int lane) {
  constexpr const char* large = "font-size=\"13\"";
  const FragmentBox box = box_at(shape.a, shape.a.cell(lane, 0));
  const auto line = [&](int i, const std::string& text) {
    return svg_text(svg_edge + 90, svg_edge + 84 + 20 * i, "start", large, text);
  };
  return svg_text(svg_edge, svg_edge, "start", "font-size=\"16\" font-weight=\"bold\"",
                  fmt::format("mma.{} ({}): D = A B + C", shape.name, shape.inputs)) +
         svg_text(svg_edge, svg_edge + 24, "start", large,
                  "A stands left of C, and B above it. D lies as C does.") +
         svg_of_box(shape.a, box, svg_edge, svg_edge + 66, true) +
         line(0, "large number: the lane of the warp, 0 to 31") +
         line(1, fmt::format("small number: which of the lane's elements, {}",
                             elements_text(shape.a, box))) +
         line(2, fmt::format("dark: all that lane {} holds", lane)) +
         line(3, "colour: t = lane % 4; deep or pale: g = lane / 4 even or odd");
}

// A, B and C of one shape placed as in a product, A left of C and B above it. Not for Volta's four
// products.
inline std::string svg_of_mma(const MmaShape& shape, int lane) {
  const int corner = svg_edge + shape.k * svg_cell + svg_edge;  // C's, to the right and down
  const int width = corner + shape.n * svg_cell + 10, height = corner + shape.m * svg_cell + 10;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"Helvetica, "
      "Arial, "
      "sans-serif\" font-size=\"10\">\n<title>{2} ({3}): which lane holds which element; lane {4} "
      "is "
      "dark</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height, shape.name, shape.inputs, lane);
  svg += svg_of_legend(shape, lane);
  svg += svg_of_fragment(shape.a, svg_edge, corner, lane);
  svg += svg_of_fragment(shape.b, corner, svg_edge, lane);
  svg += svg_of_fragment(shape.c, corner, corner, lane);
  return svg + "</svg>\n";
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
