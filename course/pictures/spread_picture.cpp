#include "course/pictures/spread_picture.hpp"

#include <algorithm>

#include "course/pictures/svg.hpp"
#include "yotta/sharding/feed_forward_spreads.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::ink;
using svg::rank_colors;
using svg::text;

constexpr const char* legend = "black lines: cuts; colours without a line between: copies";
constexpr const char* legend_of_sums =
    "black lines: cuts; colours without a line between: copies; red plus: parts of a sum";

// A matrix as a rectangle: each block has a strip for every rank that holds it, with the rank's
// number. Parts of a sum have a plus between them.
std::string matrix(const Spread& spread, const NamedMesh& mesh, double left, double top,
                   double width, double height, int letters = 12) {
  const Shape parts = {axes_size(mesh, spread.dims[0].axes), axes_size(mesh, spread.dims[1].axes)};
  const double tall = height / static_cast<double>(parts[0]);
  const double wide = width / static_cast<double>(parts[1]);
  std::string drawn;
  for (const HeldBlock& block : held_blocks(spread, mesh)) {
    const double x = left + wide * static_cast<double>(block.box[1].begin);
    const double y = top + tall * static_cast<double>(block.box[0].begin);
    const double strip = wide / static_cast<double>(block.ranks.size());
    for (size_t i = 0; i < block.ranks.size(); ++i) {
      const double at = x + strip * static_cast<double>(i);
      drawn += box(at, y, strip, tall, rank_colors[block.ranks[i]], "none") +
               text(at + strip / 2, y + tall / 2 + letters * 0.36, std::to_string(block.ranks[i]),
                    "middle", ink, letters);
      if (i > 0 && !spread.unreduced.empty())
        drawn +=
            text(at, y + tall / 2 + letters * 0.36, "+", "middle", svg::lit, letters + 2, true);
    }
    drawn += box(x, y, wide, tall, "none", "#333");
  }
  return drawn;
}

std::string panel(const char* spread, const NamedMesh& mesh, double left, double top,
                  const char* first, const char* second) {
  constexpr double side = 128;
  return text(left + side / 2, top - 12, spread, "middle", ink, 14, true) +
         matrix(parse_spread(spread, mesh), mesh, left, top, side, side) +
         text(left + side / 2, top + side + 18, first, "middle", ink, 11) +
         text(left + side / 2, top + side + 33, second, "middle", ink, 11);
}

}  // namespace

std::vector<HeldBlock> held_blocks(const Spread& spread, const NamedMesh& mesh) {
  Shape parts;
  for (const SpreadDim& dim : spread.dims) parts.push_back(axes_size(mesh, dim.axes));
  std::vector<HeldBlock> blocks;
  for (int rank = 0; rank < ranks_of(mesh); ++rank) {
    const Box held = held_box(parts, spread, mesh, rank);
    const auto same = std::find_if(blocks.begin(), blocks.end(),
                                   [&](const HeldBlock& block) { return block.box == held; });
    if (same != blocks.end())
      same->ranks.push_back(rank);
    else
      blocks.push_back({held, {rank}});
  }
  const auto place = [](const HeldBlock& block) {
    std::vector<int64_t> begins;
    for (const IndexRange& range : block.box) begins.push_back(range.begin);
    return begins;
  };
  std::sort(blocks.begin(), blocks.end(),
            [&](const HeldBlock& a, const HeldBlock& b) { return place(a) < place(b); });
  return blocks;
}

std::string spread_text(const Spread& spread, const NamedMesh& mesh) {
  std::string drawn;
  int64_t row = -1;
  for (const HeldBlock& block : held_blocks(spread, mesh)) {
    std::string ranks;
    for (const int rank : block.ranks)
      ranks += fmt::format("{}{}", ranks.empty() ? "" : spread.unreduced.empty() ? " " : "+", rank);
    if (block.box[0].begin != row)
      drawn +=
          fmt::format("{}  {}{}", row < 0 ? "" : "\n", spread.dims[0].name, block.box[0].begin);
    row = block.box[0].begin;
    drawn += fmt::format(" | {:>5}", ranks);
  }
  return drawn + "\n";
}

std::string spreads_svg() {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  std::string drawn = svg::paper(900, 500, "Who holds what: six spreads of A on four ranks");
  drawn += text(20, 28, "Six spreads of A on the mesh {X 2, Y 2}: rank = x + 2 y", "start", ink, 15,
                true);
  drawn += panel("A[I, J]", mesh, 100, 82, "every rank holds all of A", "four copies");
  drawn += panel("A[I_X, J]", mesh, 386, 82, "x cuts the rows", "each half is held twice");
  drawn += panel("A[I_X, J_Y]", mesh, 672, 82, "x cuts the rows, y the columns", "one copy");
  drawn += panel("A[I_XY, J]", mesh, 100, 286, "x cuts the rows, y each half",
                 "rank 1 holds the third quarter");
  drawn += panel("A[I_YX, J]", mesh, 386, 286, "y cuts the rows, x each half",
                 "rank 1 holds the second quarter");
  drawn += panel("A[I, J]{U_XY}", mesh, 672, 286, "every rank holds a part of every",
                 "sum: A is 0 + 1 + 2 + 3");
  return drawn + svg::rank_legend(20, 484, 4) + text(880, 484, legend_of_sums, "end", ink, 11) +
         "</svg>\n";
}

std::string product_cases_svg() {
  const NamedMesh mesh = parse_mesh("X 2");
  struct Case {
    const char *a, *b, *title, *first, *second;
  };
  constexpr Case cases[] = {
      {"[I_X, J]", "[J, K]", "Case 1: J is whole in both", "Each rank has what its rows of C need.",
       "Nothing is sent."},
      {"[I, J_X]", "[J, K]", "Case 2: J is cut in one", "all_gather A; or take the matching",
       "rows of B too, which is case 3."},
      {"[I, J_X]", "[J_X, K]", "Case 3: J is cut alike",
       "Each rank has a part of every sum:", "all_reduce or reduce_scatter C."},
      {"[I_X, J]", "[J, K_X]", "Case 4: X cuts I and K", "No rank has what the blocks off the",
       "diagonal need: gather A or B first."},
  };
  std::string drawn = svg::paper(900, 470, "The four cases of A times B on two ranks");
  double left = 24, top = 40;
  for (const Case& each : cases) {
    const Spread a = parse_spread(each.a, mesh), b = parse_spread(each.b, mesh);
    const LocalProduct product = product_of(a, b);
    const bool multiplies = product.which == 1 || product.which == 3;
    const auto name = [&](const char* letter, const Spread& spread, double x) {
      return text(x + 50, top + 38, letter + str(spread), "middle", ink, 12);
    };
    drawn += text(left, top, each.title, "start", ink, 15, true);
    drawn += name("A", a, left) + matrix(a, mesh, left, top + 48, 100, 80);
    drawn += text(left + 116, top + 94, "x", "middle", ink, 14);
    drawn += name("B", b, left + 132) + matrix(b, mesh, left + 132, top + 48, 100, 80);
    drawn += text(left + 250, top + 94, "=", "middle", ink, 14);
    if (multiplies)
      drawn += name("C", product.result, left + 268) +
               matrix(product.result, mesh, left + 268, top + 48, 100, 80);
    else
      drawn += text(left + 318, top + 80, product.which == 4 ? "C[I_X, K_X]" : "rank 1 lacks",
                    "middle", svg::lit) +
               text(left + 318, top + 98, product.which == 4 ? "cannot be held" : "columns of A",
                    "middle", svg::lit);
    drawn += text(left, top + 150, each.first, "start", ink, 12) +
             text(left, top + 167, each.second, "start", ink, 12);
    left = left > 400 ? 24 : 470;
    if (left < 400) top += 208;
  }
  return drawn + svg::rank_legend(24, 458, 2) + text(880, 458, legend_of_sums, "end", ink, 11) +
         "</svg>\n";
}

std::string feed_forward_spreads_svg() {
  constexpr const char* meshes[] = {"X 4, Y 1", "X 4, Y 1", "X 1, Y 4", "X 2, Y 2"};
  constexpr const char* products[] = {"Hidden", "Out", "dHidden", "dW_out", "dIn", "dW_in"};
  std::string drawn = svg::paper(900, 550, "Four techniques are four spreads of one layer");
  drawn += text(20, 28, "Four techniques are four spreads of one layer, on four ranks", "start",
                ink, 15, true);
  for (size_t i = 0; i < 4; ++i) {
    const FeedForwardLayout& layout = feed_forward_layouts[i];
    const NamedMesh mesh = parse_mesh(meshes[i]);
    const double left = 18 + 220 * static_cast<double>(i);
    drawn += text(left, 58, layout.name, "start", ink, 14, true);
    const auto one = [&](const char* name, const char* spread, double x, double y, double width,
                         double height) {
      drawn += text(x, y - 6, fmt::format("{}{}", name, spread), "start", ink, 11) +
               matrix(parse_spread(spread, mesh), mesh, x, y, width, height, 11);
    };
    one("In", layout.in, left, 84, 70, 76);
    one("W_in", layout.w_in, left + 100, 84, 100, 76);
    one("Hidden", layout.hidden, left, 190, 90, 76);
    one("W_out", layout.w_out, left + 100, 190, 76, 100);
    const auto plans =
        feed_forward_plans(layout, {1 << 17, 8192, 32768, DType::bf16, 0}, mesh, {180e9, 1e-6});
    double y = 318;
    for (size_t product = 0; product < 6; ++product) {
      drawn += text(left, y, fmt::format("{}:", products[product]), "start", ink, 11, true);
      std::string said = collectives_of(plans[product]);
      if (const size_t comma = said.find(", "); comma != said.npos) {
        drawn += text(left, y + 14, said.substr(0, comma), "start", svg::lit, 11);
        y += 14;
        said = said.substr(comma + 2);
      }
      drawn += text(left, y + 14, said, "start", said == "nothing" ? svg::quiet : svg::lit, 11);
      y += 30;
    }
  }
  return drawn + svg::rank_legend(18, 538, 4) + text(880, 538, legend, "end", ink, 11) + "</svg>\n";
}

}  // namespace yotta
