#include "course/pictures/tensor_parallel_picture.hpp"

#include <array>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::box;
using svg::ink;
using svg::text;

constexpr int ranks = 2;
constexpr int64_t N = 2, C = 4, F = 8;  // of the layer that is drawn, a cell for each number
constexpr double cell = 11;
constexpr const char* colors[] = {"#77aadd", "#ee8866"};  // a rank's own
constexpr const char* tints[] = {"#dbe9f7", "#fbe0d6"};   // its part of a sum
constexpr const char *whole = "#e4e4e4", *nobody = "#fff";

// Where things stand, from the left; an upper and a lower lane, one for each rank.
constexpr double x_at = 20, f_at = 92, copy_at = 152, A_at = 228, h_at = 350, a_at = 442,
                 B_at = 526, part_at = 606, g_at = 684, y_at = 748, says_at = 801;
constexpr double bar_width = 34, lane_height = 112;

// What a matrix of `rows` x `columns` cells looks like: which rectangle of it is filled, and with
// what.
struct Block {
  int64_t rows, columns;
  const char* fill = nobody;
  int64_t first_row = 0, first_column = 0, held_rows = -1, held_columns = -1;  // -1: all
};

std::string draw(const Block& block, double x, double y) {
  std::string svg;
  const int64_t held_rows = block.held_rows < 0 ? block.rows : block.held_rows;
  const int64_t held_columns = block.held_columns < 0 ? block.columns : block.held_columns;
  for (int64_t i = 0; i < block.rows; ++i)
    for (int64_t j = 0; j < block.columns; ++j) {
      const bool held = i >= block.first_row && i < block.first_row + held_rows &&
                        j >= block.first_column && j < block.first_column + held_columns;
      svg += box(x + cell * static_cast<double>(j), y + cell * static_cast<double>(i), cell, cell,
                 held ? block.fill : nobody, held ? "#333" : "#bbb",
                 held ? "" : " stroke-dasharray=\"2 2\"");
    }
  return svg;
}

// The matrix with its middle at height `middle`, and a name below.
std::string named(const Block& block, double x, double middle, const std::string& name) {
  const double height = cell * static_cast<double>(block.rows);
  const double center = x + cell * static_cast<double>(block.columns) / 2;
  return draw(block, x, middle - height / 2) +
         text(center, middle + height / 2 + 13, name, "middle", ink, 11);
}

// f or g: a bar across both lanes, red if it sends.
std::string bar(double x, double top, const char* name, bool sends) {
  return box(x, top, bar_width, 2 * lane_height - 16, sends ? "#fff" : whole,
             sends ? svg::lit : "#999", sends ? " stroke-width=\"3\"" : "") +
         text(x + bar_width / 2, top + lane_height - 4, name, "middle", sends ? svg::lit : ink, 16,
              sends);
}

// What rank `rank` does in its lane, forward (x to its part of y) or backward (dy to its part of
// dx).
std::string lane(int rank, const TensorParallelShare& share, double middle, bool forward) {
  const char *own = colors[rank], *sum = tints[rank], d = forward ? ' ' : 'd';
  const auto name = [&](const char* of, bool indexed = true) {
    return fmt::format("{}{}{}", d == ' ' ? "" : "d", of, indexed ? std::to_string(rank) : "");
  };
  const Block stream{N, C, forward ? whole : sum}, part{N, C, forward ? sum : whole};
  const Block hidden{N, share.columns, own};
  std::string svg =
      text(copy_at, middle - 28, fmt::format("rank {}", rank), "start", ink, 12, true);
  svg += named(stream, copy_at, middle, name("x", !forward));
  svg += named({C, F, own, 0, share.first_column, C, share.columns}, A_at, middle,
               fmt::format("A{}: columns {} to {}", rank, share.first_column,
                           share.first_column + share.columns - 1));
  svg += named(hidden, h_at, middle, name("h"));
  svg += named(hidden, a_at, middle, name("a"));
  svg += named(
      {F, C, own, share.first_row, 0, share.rows, C}, B_at, middle,
      fmt::format("B{}: rows {} to {}", rank, share.first_row, share.first_row + share.rows - 1));
  svg += named(part, part_at, middle, name("y", forward));
  const double ends[][2] = {{copy_at + 44, A_at}, {A_at + 88, h_at},    {h_at + 44, a_at},
                            {a_at + 44, B_at},    {B_at + 44, part_at}, {f_at + bar_width, copy_at},
                            {part_at + 44, g_at}};
  for (const auto& [from, to] : ends)
    svg +=
        forward ? arrow(from + 4, middle, to - 4, middle) : arrow(to - 4, middle, from + 4, middle);
  return svg +
         text((h_at + 44 + a_at) / 2, middle - 8, forward ? "act" : "act'", "middle", ink, 11);
}

// Both lanes, f and g, and what comes in and goes out.
std::string half(bool forward, double top, const std::array<TensorParallelShare, ranks>& shares) {
  const double middle = top + lane_height;
  std::string svg = text(x_at, top - 8, forward ? "forward" : "backward", "start", ink, 14, true);
  svg += bar(f_at, top + 8, "f", !forward) + bar(g_at, top + 8, "g", forward);
  for (int rank = 0; rank < ranks; ++rank)
    svg += lane(rank, shares[static_cast<size_t>(rank)], top + lane_height * (rank + 0.5), forward);
  svg += named({N, C, whole}, x_at, middle, forward ? "x" : "dx");
  svg += named({N, C, whole}, y_at, middle, forward ? "y" : "dy");
  svg += forward ? arrow(x_at + 48, middle, f_at - 4, middle) +
                       arrow(g_at + bar_width + 4, middle, y_at - 4, middle, true)
                 : arrow(f_at - 4, middle, x_at + 48, middle, true) +
                       arrow(y_at - 4, middle, g_at + bar_width + 4, middle);
  const int64_t sent = forward ? shares[0].sent_forward : shares[0].sent_backward;
  const double lines[] = {top + 30, top + 46, top + 62, top + 152, top + 168};
  svg += text(says_at, lines[0], fmt::format("{}: all_reduce", forward ? "g" : "f"), "start",
              svg::lit, 12, true);
  svg += text(says_at, lines[1], fmt::format("{} numbers", sent));
  svg += text(says_at, lines[2], "a rank");
  svg += text(says_at, lines[3], fmt::format("{}: nothing", forward ? "f" : "g"), "start", ink, 12,
              true);
  return svg + text(says_at, lines[4], "is sent");
}

std::string legend(double y) {
  struct Entry {
    double x;
    const char *fill, *words;
  };
  const Entry entries[] = {{20, colors[0], "rank 0's"},
                           {106, colors[1], "rank 1's"},
                           {192, tints[0], "rank 0's part of every sum"},
                           {392, tints[1], "rank 1's part of every sum"},
                           {592, whole, "whole, on both ranks"},
                           {752, nobody, "on the other rank"}};
  std::string svg;
  for (const auto& [x, fill, words] : entries)
    svg += box(x, y - 10, 12, 12, fill, fill == nobody ? "#bbb" : "#333",
               fill == nobody ? " stroke-dasharray=\"2 2\"" : "") +
           text(x + 18, y, words);
  return svg;
}

}  // namespace

TensorParallelShare tensor_parallel_share(int rank) {
  TensorParallelShare share;
  const auto reports = run_ranks(ranks, [&](Communicator& tp) {
    Mlp mlp("mlp", {MlpKind::gelu, C, F, false}, {1, DType::f64});
    tensor_parallel(mlp, std::make_shared<Border>(tp));
    Saved saved;
    const Tensor x = Tensor::zeros({N, C}, DType::f64);
    mlp.backward_input(mlp.forward(x, saved), saved);
    if (tp.rank() != rank) return;
    const ShardRange A = (*mlp.in)[0].weight_parameter().range;  // outputs, inputs
    const ShardRange B = mlp.down->weight_parameter().range;
    share = {A.first_row, A.rows, B.first_column, B.columns, 0, 0};
  });
  const Ledger& ledger = reports[static_cast<size_t>(rank)].ledger();
  const auto numbers = [&](const char* label) {
    return ledger.traffic(label).bytes_sent / static_cast<int64_t>(sizeof(double));
  };
  share.sent_forward = numbers("tp.forward");
  share.sent_backward = numbers("tp.backward");
  return share;
}

std::string tensor_parallel_svg() {
  const char* const title = "Who holds which block, and where f and g send";
  const std::array<TensorParallelShare, ranks> shares = {tensor_parallel_share(0),
                                                         tensor_parallel_share(1)};
  std::string svg = svg::paper(900, 610, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg += text(20, 48,
              fmt::format("y = act(x A) B on 2 ranks. A cell is one number: {} tokens, C {}, F {}.",
                          N, C, F));
  svg += half(true, 90, shares) + half(false, 346, shares);
  return svg + legend(594) + "</svg>\n";
}

}  // namespace yotta
