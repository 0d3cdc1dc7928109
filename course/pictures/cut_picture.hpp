// What backward reads of the forward, and the cheapest values to keep for it: a minimum cut.
//
// A row is a value of the forward, in order, with arcs from its operands. Its bar is what it costs
// to keep. On the left is backward, with an arrow from each value that it reads: bright if the
// value is kept, dashed if it is computed again.
//
// lessons/05_fusion/README.md shows it. The file course/pictures/minimum_cut.svg is what
// `./yotta lesson 05 -- --draw 1` writes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "course/pictures/svg.hpp"
#include "yotta/device/graph_backward.hpp"

namespace yotta {

// ---- The example ----
inline Array gelu_of(const Array& x) {
  return x / (exp(x * (x * x * 0.0713548162726 + 1.5957691216) * -1.0) + 1.0);
}
inline Array block_end(const Array& x, const Array& bias, const Array& residual) {
  const Array y = gelu_of(x + bias);
  return choose(keep_mask(y, 0.1, 7, "drop"), y / 0.9, 0.0) + residual;
}
// Matmul, bias, gelu, dropout and residual, and their backward.
inline Joint block_end_joint(int64_t rows, int64_t columns) {
  const DeviceScope sizes_are_enough(Device::meta);
  const Tensor x = Tensor::zeros({rows, columns}), w = Tensor::zeros({columns, columns}),
               b = Tensor::zeros({columns});
  const auto layer = [](const Array& a, const Array& weight, const Array& bias) {
    return block_end(matmul(a, weight), bias, a);
  };
  const Graph graph = merge_equal(capture(layer, x, w, b));
  return backward(graph, graph.outputs[0], graph.inputs());
}

// ---- The picture ----
namespace cut_picture {
inline constexpr double top = 84, row = 30, box_left = 330, box_wide = 150, bars = 310;
inline constexpr double pixels_a_kb = 0.1;
inline constexpr const char *given = "#e4e4e4", *again = "#dfe9f5", *kept_fill = "#f6d5d0";

// The forward's values, without numbers that are made from nothing.
inline std::vector<int> values(const Joint& joint) {
  std::vector<int> all;
  for (int n = 0; n < joint.forward_nodes; ++n)
    if (!is_made(joint.graph.node(n).op)) all.push_back(n);
  return all;
}
inline double middle(size_t at) { return top + row * static_cast<double>(at) + 12; }

// Rows have numbers of their own: in which order the nodes of numbers are made, each compiler
// decides.
inline std::string operand(const Joint& joint, const std::vector<int>& rows, int n) {
  const Node& node = joint.graph.node(n);
  if (node.op == Op::number) return fmt::format("{:.3g}", node.number);
  if (node.op == Op::input) return node.name;
  if (is_made(node.op)) return info(node.op).name;
  return fmt::format("{}", std::find(rows.begin(), rows.end(), n) - rows.begin());
}
// "4  add 3 x2"
inline std::string words_of(const Joint& joint, const std::vector<int>& rows, size_t at) {
  const Node& node = joint.graph.node(rows[at]);
  if (node.op == Op::input) return node.name;
  std::string words = fmt::format("{}  {}", at, info(node.op).name);
  for (const int i : node.in) words += " " + operand(joint, rows, i);
  return words;
}

inline std::string box_of(const Joint& joint, const std::vector<int>& rows, size_t at,
                          bool is_kept) {
  const int n = rows[at];
  const double kb = keep_price(joint, n) / 1e3, wide = std::max(1.0, pixels_a_kb * kb);
  const char* const fill = is_kept                               ? kept_fill
                           : joint.graph.node(n).op == Op::input ? given
                                                                 : again;
  const double y = middle(at);
  return svg::box(bars - wide, y - 6, wide, 12, is_kept ? svg::lit : "#b9c9dc", "none") +
         svg::text(bars - wide - 6, y + 4, fmt::format("{:.0f} KB", kb), "end") +
         svg::box(box_left, y - 12, box_wide, 24, fill, "#333", " rx=\"4\"") +
         svg::text(box_left + 8, y + 4, words_of(joint, rows, at));
}

// From an operand down to what is computed of it, wider the longer the way.
inline std::string arc(size_t from, size_t to) {
  const double x = box_left + box_wide, way = 14 + 9 * static_cast<double>(to - from);
  return fmt::format(
      "<path d=\"M{0:.0f} {1:.0f}C{2:.0f} {1:.0f} {2:.0f} {3:.0f} {0:.0f} {3:.0f}\" fill=\"none\" "
      "stroke=\"{4}\" stroke-width=\"1.2\"/>\n",
      x, middle(from) + 4, x + way, middle(to) - 4, svg::quiet);
}

inline std::string read_arrow(size_t at, bool is_kept) {
  const double y = middle(at);
  return fmt::format(
      "<path d=\"M126 {0:.0f}H72\" fill=\"none\" stroke=\"{1}\" stroke-width=\"{2}\"{3} "
      "marker-end=\"url(#{4})\"/>\n",
      y, is_kept ? svg::lit : svg::quiet, is_kept ? 3 : 1.5,
      is_kept ? "" : " stroke-dasharray=\"4 3\"", is_kept ? "lit" : "tip");
}

inline std::string notes() {
  std::string all;
  double y = top + 12;
  for (const auto& [color, words] : {std::pair{svg::lit, "Red is kept. An input or a"},
                                     {svg::lit, "matmul's result is in memory"},
                                     {svg::lit, "anyway: its price is one read."},
                                     {svg::ink, ""},
                                     {svg::ink, "Blue is computed again, from"},
                                     {svg::ink, "what is kept, in registers. To"},
                                     {svg::ink, "keep it would cost a write"},
                                     {svg::ink, "and a read."},
                                     {svg::ink, ""},
                                     {svg::ink, "Arrows: what backward reads;"},
                                     {svg::ink, "dashed: from registers."}}) {
    all += svg::text(620, y, words, "start", color);
    y += 18;
  }
  return all;
}
}  // namespace cut_picture

// `kept`: keep_least(joint), or what else is kept.
inline std::string cut_svg(const Joint& joint, const std::vector<int>& kept) {
  using namespace svg;
  using namespace cut_picture;
  const std::vector<int> all = values(joint);
  const ByNode<bool> read = read_by_backward(joint);
  const int height = static_cast<int>(middle(all.size())) - 4;
  std::string picture =
      paper(860, height, "What backward reads, and the cheapest values to keep for it") +
      text(20, 30, "What backward reads, and the cheapest values to keep for it", "start", ink, 15,
           true) +
      text(20, 60, "backward", "start", ink, 12, true) +
      text(bars, 60, "what it costs to keep", "end", ink, 12, true) +
      text(box_left, 60, "forward", "start", ink, 12, true) +
      box(24, top, 42, middle(all.size()) - top - 18, "#fff");
  for (size_t at = 0; at < all.size(); ++at) {
    const int n = all[at];
    const bool is_kept = contains(kept, n);
    picture += box_of(joint, all, at, is_kept);
    if (read[n] || is_kept) picture += read_arrow(at, is_kept);
    for (const int i : joint.graph.node(n).in)
      if (const auto from = std::find(all.begin(), all.end(), i); from != all.end())
        picture += arc(static_cast<size_t>(from - all.begin()), at);
  }
  return picture + notes() + "</svg>\n";
}

}  // namespace yotta
