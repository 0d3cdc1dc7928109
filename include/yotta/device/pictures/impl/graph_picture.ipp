// The bodies of device/pictures/graph_picture.hpp.
#pragma once

#include "yotta/device/pictures/graph_picture.hpp"

namespace yotta {

namespace detail {

// A box of the picture: memory's values on the left, kernels on the right.
struct GraphBox {
  double top = 0, height = 0;
};

inline std::string graph_words(double x, double y, const std::string& text, int size = 13,
                               const char* more = "") {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"{}\"{}>{}</text>\n", x, y, size,
                     more, text);
}

// "subtract 0 1"
inline std::string node_text(const Graph& graph, int n) {
  const Node& node = graph.node(n);
  std::string text = fmt::format("{}  {}", n, info(node.op).name);
  for (const int i : node.in) text += fmt::format(" {}", i);
  if (node.op == Op::number) text += fmt::format(" {:.4g}", node.number);
  return text;
}

inline std::string graph_arrow(double x1, double x2, double y, const char* color) {
  const double head = x2 > x1 ? -6 : 6;
  return fmt::format(
      "<path d=\"M{:.0f} {:.0f} H{:.0f} m{:.0f} -4 l{:.0f} 4 l{:.0f} 4\" fill=\"none\" "
      "stroke=\"{}\" stroke-width=\"2\"/>\n",
      x1, y, x2, head, -head, head, color);
}

}  // namespace detail

YOTTA_INLINE std::string graph_svg(const Graph& graph, const std::vector<Kernel>& kernels,
                                   const std::string& title) {
  constexpr double line = 20, memory = 190, left = 330, width = 230;
  constexpr const char* dark = "#1f3a5f";
  std::string text = detail::graph_words(20, 26, title, 15, " font-weight=\"bold\"") +
                     detail::graph_words(20, 50, "memory") +
                     detail::graph_words(left, 50, "kernels");
  double y = 64;
  double bytes = 0;
  for (const Kernel& kernel : kernels) {
    const double rows = static_cast<double>(
        std::max(kernel.nodes.size(), kernel.reads.size() + kernel.writes.size()));
    text += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\" "
        "fill=\"#dfe9f5\" stroke=\"{}\"/>\n",
        left, y, width, rows * line + 8, dark);
    double at = y + 18;
    for (const int n : kernel.nodes) {
      text += detail::graph_words(left + 12, at, detail::node_text(graph, n));
      at += line;
    }
    at = y + 18;
    const auto crossing = [&](int n, bool read) {
      const std::string name = graph.node(n).op == Op::input ? graph.node(n).name : "value";
      text +=
          detail::graph_words(20, at, fmt::format("{} {} {}", n, name, str(graph.node(n).size)));
      text += detail::graph_arrow(read ? memory : left, read ? left : memory, at - 4,
                                  read ? "#2f7d4f" : "#b5482a");
      bytes += bytes_of(graph, n);
      at += line;
    };
    for (const int n : kernel.reads) crossing(n, true);
    for (const int n : kernel.writes) crossing(n, false);
    y += rows * line + 20;
  }
  text += detail::graph_words(20, y + 14,
                              fmt::format("{} kernel{}, {:.0f} KB cross the bus", kernels.size(),
                                          kernels.size() == 1 ? "" : "s", bytes / 1e3));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"{0:.0f}\" viewBox=\"0 0 "
      "600 "
      "{0:.0f}\" font-family=\"sans-serif\" fill=\"#222\">\n<rect width=\"600\" height=\"{0:.0f}\" "
      "fill=\"white\"/>\n{1}</svg>\n",
      y + 30, text);
}

}  // namespace yotta
