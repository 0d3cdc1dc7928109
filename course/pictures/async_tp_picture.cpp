#include "course/pictures/async_tp_picture.hpp"

#include <algorithm>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/nn/linear_ops.hpp"

namespace yotta {

namespace {

constexpr int p = async_tp_picture_ranks;

// ---- who multiplies what ----

struct Grid {
  const char* title;
  const char* cell;  // before the piece's number
  Pieces pieces;
  bool sums;
};
constexpr Grid grids[] = {{"all_gather, then matmul: one way", "x", Pieces::one_way, false},
                          {"the same both ways", "x", Pieces::both_ways, false},
                          {"matmul, then reduce_scatter", "s", Pieces::one_way, true}};

// A grid's columns are steps: both ways, step 1 has two pieces.
std::string grid_svg(const Grid& grid, double x) {
  const double side = 42, top = 92;
  std::string svg = svg::text(x, 56, grid.title, "start", svg::ink, 13, true);
  const auto all = pieces_multiplied(p, grid.pieces, grid.sums);
  const bool both = grid.pieces == Pieces::both_ways;
  const char* steps[] = {"0", "1", both ? "1" : "2", both ? "2" : "3"};
  for (int column = 0; column < p; ++column)
    svg += svg::text(x + 56 + side * column, top - 12, column == 0 ? "step 0" : steps[column],
                     "middle", svg::ink, 11);
  for (int rank = 0; rank < p; ++rank) {
    const double y = top + side * rank;
    svg += svg::text(x + 26, y + 24, fmt::format("r{}", rank), "end", svg::ink, 11);
    for (int column = 0; column < p; ++column) {
      const int piece = all[static_cast<size_t>(rank)][static_cast<size_t>(column)];
      svg += svg::box(x + 36 + side * column, y, side - 4, side - 8, timeline_color(piece)) +
             svg::text(x + 55 + side * column, y + 22, fmt::format("{}{}", grid.cell, piece),
                       "middle", svg::ink, 12);
    }
  }
  return svg;
}

// ---- timelines ----

constexpr double left = 140, second = 78;

std::string panel_svg(Pieces pieces, double hop, double y, const std::string& title) {
  const Trace trace = async_tp_trace(pieces, hop);
  std::string svg = svg::text(20, y, title, "start", svg::ink, 13, true);
  svg += svg::text(20, y + 31, "compute") + svg::text(20, y + 61, "arrives");
  const auto bar = [&](const TraceEvent& event, double top, int color, const std::string& words) {
    const double at = left + second * event.begin, wide = second * event.seconds();
    svg += svg::box(at, top, wide, 24, timeline_color(color)) +
           svg::text(at + wide / 2, top + 16, words, "middle", svg::ink, 12);
  };
  int multiplied = 0, came = 0;
  const auto order = pieces_multiplied(p, Pieces::one_way, false)[0];
  for (const TraceEvent& event : trace.ranks[0]) {
    if (event.kind == EventKind::op)
      pieces == Pieces::none ? bar(event, y + 15, 8, "x0 to x3")
                             : bar(event, y + 15, order[static_cast<size_t>(multiplied)],
                                   fmt::format("x{}", order[static_cast<size_t>(multiplied)]));
    multiplied += event.kind == EventKind::op;
    if (event.kind == EventKind::recv) {
      const int piece = order[static_cast<size_t>(++came)];
      bar(event, y + 45, piece, fmt::format("x{}", piece));
    }
  }
  const double axis = y + 80, end = seconds(trace);
  svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#333\"/>\n", left, axis,
                     left + second * end);
  for (int tick = 0; tick <= end + 1e-9; ++tick)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#333\"/>\n", left + second * tick,
                       axis) +
           svg::text(left + second * tick, axis + 18, fmt::format("{} s", tick), "middle");
  return svg;
}

}  // namespace

std::vector<std::vector<int>> pieces_multiplied(int ranks, Pieces pieces, bool sums) {
  std::vector<std::vector<int>> all(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& tp) {
    std::vector<int>& own = all[static_cast<size_t>(tp.rank())];
    if (sums)
      reduce_scatter_in_pieces(ranks, tp, pieces, [&](int64_t first, int64_t n) {
        own.push_back(static_cast<int>(first));
        return Tensor::zeros({n, 1});
      });
    else
      all_gather_in_pieces(
          Tensor::zeros({1, 1}), ranks, tp, pieces,
          [&](int64_t first, const Tensor&) { own.push_back(static_cast<int>(first)); });
  });
  return all;
}

Trace async_tp_trace(Pieces pieces, double hop) {
  const int64_t rows = 8, width = 16;
  const Cluster machine = ideal(p, 2.0 * rows * width * width, 4.0 * rows * width / hop);
  return run_on(
             machine, p,
             [&](Communicator& tp) {
               const DeviceScope meta(Device::meta);
               const Tensor own = Tensor::empty({rows, width}), w = Tensor::empty({width, width});
               Tensor all = Tensor::empty({p * rows, width});
               if (pieces == Pieces::none) {
                 tp.all_gather(all, own, {.algorithm = Algorithm::ring});
                 linear(all, w);
               } else {
                 all_gather_in_pieces(own, p * rows, tp, pieces,
                                      [&](int64_t, const Tensor& x) { linear(x, w); });
               }
             })
      .trace;
}

std::string async_tp_ring_svg() {
  std::string svg = svg::paper(900, 312, "Which rank multiplies which piece in which step");
  svg += svg::text(20, 28, "Four ranks, four pieces: which rank multiplies which, step by step",
                   "start", svg::ink, 15, true);
  for (size_t i = 0; i < std::size(grids); ++i)
    svg += grid_svg(grids[i], 20 + 296 * static_cast<double>(i));
  svg += svg::text(20, 284,
                   "x2: the rows of x that began on rank 2. s2: each rank's part of the sums that "
                   "rank 2 is to have.");
  svg += svg::text(20, 302, "r0 to r3: the ranks. A colour is a piece.");
  return svg + "</svg>\n";
}

std::string async_tp_svg() {
  std::string svg = svg::paper(900, 452, "An all_gather with its matmul on rank 0 of four");
  svg += svg::text(20, 28, "An all_gather with its matmul on rank 0 of four, virtual clock",
                   "start", svg::ink, 15, true);
  svg += panel_svg(Pieces::none, 0.75, 60, "Whole, a hop takes 0.75 s: 6.25 s");
  svg +=
      panel_svg(Pieces::one_way, 0.75, 186, "In pieces, a hop takes 0.75 s: 4 s, the matmul alone");
  svg += panel_svg(Pieces::one_way, 1.5, 312, "In pieces, a hop takes 1.5 s: 5.5 s, it waits");
  svg += svg::text(20, 438,
                   "x0 to x3: the rows that began on ranks 0 to 3. A piece's matmul takes 1 s.");
  return svg + "</svg>\n";
}

}  // namespace yotta
