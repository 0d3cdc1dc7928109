// Pieces of SVG that the course's pictures share: text, boxes, arrows, and the paper that they
// stand on.
#pragma once

#include <fmt/format.h>

#include <string>

namespace yotta::svg {

inline constexpr const char *ink = "#222", *quiet = "#777", *lit = "#b2182b";

// `anchor`: start, middle or end: which part of the words stands at x.
inline std::string text(double x, double y, const std::string& words, const char* anchor = "start",
                        const char* color = ink, int size = 12, bool bold = false) {
  return fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\" fill=\"{}\" "
      "font-size=\"{}\"{}>{}</text>\n",
      x, y, anchor, color, size, bold ? " font-weight=\"bold\"" : "", words);
}

inline std::string box(double x, double y, double width, double height, const char* fill,
                       const char* stroke = "#333", const char* more = "") {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
      "stroke=\"{}\"{}/>\n",
      x, y, width, height, fill, stroke, more);
}

inline std::string arrow(double x0, double y0, double x1, double y1, bool is_lit = false) {
  return fmt::format(
      "<path d=\"M{:.0f} {:.0f}L{:.0f} {:.0f}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "marker-end=\"url(#{})\"/>\n",
      x0, y0, x1, y1, is_lit ? lit : quiet, is_lit ? 3 : 1.5, is_lit ? "lit" : "tip");
}

// Of ranks 0 to 3, light enough to write on; colour-blind readers can tell them apart (Paul Tol,
// "Colour schemes", 2021).
inline constexpr const char* rank_colors[] = {"#77aadd", "#ee8866", "#eedd88", "#44bb99"};

// A legend of the first ranks' colours, from x on.
inline std::string rank_legend(double x, double y, int ranks) {
  std::string svg;
  for (int rank = 0; rank < ranks; ++rank, x += 86)
    svg +=
        box(x, y - 10, 12, 12, rank_colors[rank]) + text(x + 18, y, fmt::format("rank {}", rank));
  return svg;
}

// How every picture begins; `more` is for its attributes.
inline std::string head(int width, int height, const std::string& title, const char* more = "") {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\"{3}>\n<title>{2}</title>\n",
      width, height, title, more);
}

// White, with a frame.
inline std::string sheet(int width, int height) {
  return fmt::format(
      "<rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#fff\" "
      "stroke=\"#bbb\"/>\n",
      width - 2, height - 2);
}

// The beginning of a picture, up to its white paper, with the arrows' heads; `patterns` is more for
// its <defs>.
inline std::string paper(int width, int height, const std::string& title,
                         const std::string& patterns = "") {
  std::string svg = head(width, height, title) + "<defs>\n" + patterns;
  for (const auto& [id, color] : {std::pair{"tip", quiet}, std::pair{"lit", lit}})
    svg += fmt::format(
        "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"11\" "
        "markerHeight=\"11\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 "
        "8Z\" "
        "fill=\"{}\"/></marker>\n",
        id, color);
  return svg + "</defs>\n" + sheet(width, height);
}

}  // namespace yotta::svg
