#include "course/pictures/sequence_parallel_picture.hpp"

#include <array>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/parallel/activation_memory.hpp"
#include "yotta/parallel/sequence_parallel.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::box;
using svg::ink;
using svg::text;

// ---- who holds which tokens ----

constexpr int ranks = 2;
constexpr int64_t T = 6, C = 4;  // one sequence: a cell for each number
constexpr double cell = 11, bar_width = 30, lane_height = 100;
constexpr const char *whole = "#e4e4e4", *nobody = "#fff";
constexpr const char* colors[] = {"#77aadd", "#ee8866"};  // a rank's own tokens
constexpr const char* tints[] = {"#dbe9f7", "#fbe0d6"};   // its part of every sum

// Where things stand, from the left.
constexpr double stream_at = 70, norm_at = 138, normed_at = 216, in_at = 282, whole_at = 338,
                 layer_at = 408, part_at = 538, out_at = 608, sum_at = 664, drop_at = 732,
                 y_at = 826;

// Tokens as rows of cells: those from `first` to `first + held` filled.
std::string tokens(double x, double middle, const char* fill, int64_t first = 0, int64_t held = T) {
  std::string svg;
  for (int64_t i = 0; i < T; ++i)
    for (int64_t j = 0; j < C; ++j) {
      const bool here = i >= first && i < first + held;
      svg += box(x + cell * static_cast<double>(j),
                 middle + cell * (static_cast<double>(i) - static_cast<double>(T) / 2), cell, cell,
                 here ? fill : nobody, here ? "#333" : "#ccc",
                 here ? "" : " stroke-dasharray=\"2 2\"");
    }
  return svg;
}

std::string step(double x, double middle, double width, const char* name) {
  return box(x, middle - 14, width, 28, "#fff", "#333", " rx=\"6\"") +
         text(x + width / 2, middle + 4, name, "middle", ink, 12);
}

// f, g or g's conjugate: a bar across both lanes, red if it sends.
std::string bar(double x, double top, const char* name, bool sends, const std::string& says) {
  return box(x, top, bar_width, 2 * lane_height - 12, sends ? "#fff" : whole,
             sends ? svg::lit : "#999", sends ? " stroke-width=\"3\"" : "") +
         text(x + bar_width / 2, top + lane_height - 2, name, "middle", sends ? svg::lit : ink, 16,
              sends) +
         text(x + bar_width / 2, top + 2 * lane_height + 6, says, "middle", sends ? svg::lit : ink,
              11);
}

std::string lane(int rank, const SequenceParallelShare& share, double middle, bool shares) {
  const char* const own = shares ? colors[rank] : whole;
  const int64_t first = shares ? share.first_token : 0, held = shares ? share.tokens : T;
  std::string svg = text(16, middle + 4, fmt::format("rank {}", rank), "start", ink, 12, true);
  svg += tokens(stream_at, middle, own, first, held) + step(norm_at, middle, 54, "norm");
  svg += tokens(normed_at, middle, own, first, held) + tokens(whole_at, middle, whole);
  svg += step(layer_at, middle, 106, fmt::format("A{0}, act, B{0}", rank).c_str());
  svg += tokens(part_at, middle, tints[rank]) + tokens(sum_at, middle, own, first, held);
  svg += step(drop_at, middle, 80, "dropout, +") + tokens(y_at, middle, own, first, held);
  const double ends[][2] = {{stream_at + 44, norm_at}, {norm_at + 54, normed_at},
                            {normed_at + 44, in_at},   {in_at + bar_width, whole_at},
                            {whole_at + 44, layer_at}, {layer_at + 106, part_at},
                            {part_at + 44, out_at},    {out_at + bar_width, sum_at},
                            {sum_at + 44, drop_at},    {drop_at + 80, y_at}};
  for (const auto& [from, to] : ends) svg += arrow(from + 3, middle, to - 3, middle);
  return svg;
}

std::string half(bool shares, double top, const std::array<SequenceParallelShare, ranks>& held) {
  std::string svg =
      text(16, top - 12,
           shares ? "With sequence parallelism: half of the tokens outside"
                  : "Tensor parallelism alone: all tokens, twice the same work outside",
           "start", ink, 14, true);
  svg += bar(in_at, top, shares ? "g" : "f", shares,
             shares ? fmt::format("all_gather: {} numbers", held[0].gathered) : "nothing");
  svg += bar(out_at, top, shares ? "ḡ" : "g", true,
             shares ? fmt::format("reduce_scatter: {} numbers", held[0].scattered)
                    : fmt::format("all_reduce: {} numbers", held[0].reduced));
  for (int rank = 0; rank < ranks; ++rank)
    svg +=
        lane(rank, held[static_cast<size_t>(rank)], top + lane_height * (rank + 0.5) - 6, shares);
  return svg;
}

std::string legend(double y) {
  struct Entry {
    double x;
    const char *fill, *words;
  };
  const Entry entries[] = {
      {16, colors[0], "rank 0's tokens"}, {146, colors[1], "rank 1's tokens"},
      {276, whole, "all tokens"},         {372, tints[0], "rank 0's part of every sum"},
      {566, tints[1], "rank 1's part"},   {682, nobody, "on the other rank"}};
  std::string svg;
  for (const auto& [x, fill, words] : entries)
    svg += box(x, y - 10, 12, 12, fill, fill == nobody ? "#ccc" : "#333",
               fill == nobody ? " stroke-dasharray=\"2 2\"" : "") +
           text(x + 18, y, words);
  return svg;
}

// ---- what a rank keeps ----

struct Model {
  const char* name;
  ActivationSizes sizes;
  double L, p, m;  // layers, stages, chunks per rank
};
constexpr Model models[] = {
    {"22B: 48 layers, microbatch 4", {2048, 4, 6144, 64, 8}, 48, 1, 1},
    {"175B: 96 layers on 8 stages, microbatch 1", {2048, 1, 12288, 96, 8}, 96, 8, 3}};

struct Variant {
  const char* name;
  bool shares;
  Recomputed what;
};
constexpr Variant variants[] = {{"tensor parallelism alone", false, Recomputed::none},
                                {"+ sequence parallelism", true, Recomputed::none},
                                {"+ selective recomputation", false, Recomputed::attention},
                                {"+ both", true, Recomputed::attention},
                                {"all recomputed", false, Recomputed::all}};

// Bytes a layer keeps: what is whole on each rank, what is cut, attention's squares.
std::array<double, 3> kept(const ActivationSizes& z, const Variant& variant) {
  const double all = activation_bytes_per_layer(z, variant.shares, variant.what),
               sbh = z.s * z.b * z.h;
  if (variant.what == Recomputed::all) return {all, 0, 0};
  const double outside = variant.shares ? 0 : 10 * sbh;
  const double linear = activation_bytes_per_layer(z, variant.shares, Recomputed::attention);
  return {outside, linear - outside, all - linear};
}

std::string chart(const Model& model, double top) {
  constexpr double left = 210, row = 24, per_gib = 9.2;
  constexpr const char* fills[] = {"#bbbbbb", "#77aadd", "#eedd88"};
  const double axis = top + 5 * row + 8;
  std::string svg = text(16, top - 12, model.name, "start", ink, 14, true);
  for (int gib = 0; gib <= 70; gib += 10)
    svg += box(left + per_gib * gib, top - 4, 0.5, axis - top + 4, "#ddd", "#ddd") +
           text(left + per_gib * gib, axis + 14, std::to_string(gib), "middle", svg::quiet, 11);
  svg += text(left + per_gib * 70 + 18, axis + 14, "GiB", "start", svg::quiet, 11);
  double y = top;
  for (const Variant& variant : variants) {
    const double one = activation_bytes_per_layer(model.sizes, variant.shares, variant.what);
    const double all = activation_bytes_first_stage(model.sizes, variant.shares, variant.what,
                                                    model.L, model.p, model.m) /
                       (1 << 30);
    svg += text(left - 8, y + 15, variant.name, "end", ink, 12);
    double x = left;
    const std::array<double, 3> parts = kept(model.sizes, variant);
    for (size_t i = 0; i < 3; ++i) {
      const double width = per_gib * all * parts[i] / one;
      if (width > 0) svg += box(x, y + 3, width, row - 7, fills[i]);
      x += width;
    }
    svg += text(x + 6, y + 15, fmt::format("{:.1f}", all), "start", ink, 12);
    y += row;
  }
  return svg;
}

}  // namespace

SequenceParallelShare sequence_parallel_share(int rank) {
  SequenceParallelShare share;
  const auto sent = [&](auto body) {
    const auto reports = run_ranks(ranks, body);
    int64_t bytes = 0;
    for (const char* label : {"sp.forward", "tp.forward"})
      bytes += reports[static_cast<size_t>(rank)].ledger().traffic(label).bytes_sent;
    return bytes / static_cast<int64_t>(sizeof(double));
  };
  share.gathered = sent([&](Communicator& tp) {
    const int64_t held = tokens_held(T, tp);
    SequenceBorder(tp, T).enter(Tensor::zeros({held, C}, DType::f64));
    if (tp.rank() == rank) share.tokens = held, share.first_token = chunk_begin(T, ranks, rank);
  });
  share.scattered = sent([](Communicator& tp) {
    SequenceBorder(tp, T).leave(Tensor::zeros({1, T, C}, DType::f64));
  });
  share.reduced = sent([](Communicator& tp) {
    Border(tp).leave(Tensor::zeros({1, T, C}, DType::f64));
  });
  return share;
}

std::string sequence_parallel_svg() {
  const char* const title = "Who holds which tokens, and what is sent forward";
  const std::array<SequenceParallelShare, ranks> held = {sequence_parallel_share(0),
                                                         sequence_parallel_share(1)};
  std::string svg = svg::paper(900, 584, title);
  svg += text(16, 28, title, "start", ink, 15, true);
  svg += text(16, 47,
              fmt::format("Half of a block on 2 ranks: {} tokens (a row each), C {}. Numbers sent "
                          "are a rank's.",
                          T, C));
  svg += half(false, 92, held) + half(true, 334, held);
  return svg + legend(570) + "</svg>\n";
}

std::string sequence_parallel_memory_svg() {
  const char* const title = "Activations that a GPU of 8 tensor-parallel ones keeps";
  std::string svg = svg::paper(900, 450, title);
  svg += text(16, 28, title, "start", ink, 15, true);
  svg += chart(models[0], 72) + chart(models[1], 258);
  constexpr std::pair<const char*, const char*> entries[] = {
      {"#bbbbbb", "whole on every rank"},
      {"#77aadd", "an eighth on each rank"},
      {"#eedd88", "attention's T x T arrays, an eighth of the heads"}};
  double x = 16;
  for (const auto& [fill, words] : entries) {
    svg += box(x, 426, 12, 12, fill) + text(x + 18, 436, words);
    x += 190;
  }
  return svg + "</svg>\n";
}

}  // namespace yotta
