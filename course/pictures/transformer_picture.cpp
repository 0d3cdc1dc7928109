#include "course/pictures/transformer_picture.hpp"

#include "course/pictures/svg.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::ink;
using svg::quiet;
using svg::text;

constexpr int layers = 4, towers = 4;
constexpr double slab_width = 92, slab_height = 14, depth_x = 38, depth_y = -34;
constexpr double first_tower = 284, tower_pitch = 130, weights_at = 44;
constexpr double lowest = 306, layer_pitch = 62;

double tower_x(int tower) { return first_tower + tower_pitch * tower; }
double layer_y(int layer) { return lowest - layer_pitch * layer; }

// What a piece looks like: a rank's own colour and pattern, nobody's, or a dashed outline.
enum class Look { neutral, rank_0, rank_1, dropped };

std::string face(Look look, bool top, const std::string& points) {
  if (look == Look::dropped)
    return fmt::format("<path d=\"{}Z\" fill=\"#fff\" stroke=\"#777\" stroke-dasharray=\"4 3\"/>\n",
                       points);
  const char* tops[] = {"#ececec", "#cfe0f5", "#fbdcc8"};
  const char* sides[] = {"#a8a8a8", "#4477aa", "url(#hatch)"};
  const auto i = static_cast<size_t>(look);
  return fmt::format("<path d=\"{}Z\" fill=\"{}\" stroke=\"#333\" stroke-width=\"0.8\"/>\n", points,
                     top ? tops[i] : sides[i]);
}

// A part of a slab: from u0 to u1 of its width and from v0 to v1 of its depth, each from 0 to 1.
struct Piece {
  double u0 = 0, u1 = 1, v0 = 0, v1 = 1;
  Look look = Look::neutral;
  std::string label = "";
};

// Three faces and a label. (x, y): the front left corner of the slab's top.
std::string draw(const Piece& piece, double x, double y, double height) {
  const auto at = [&](double u, double v, double down) {
    return fmt::format("{:.1f} {:.1f}", x + u * slab_width + v * depth_x, y + v * depth_y + down);
  };
  const auto [u0, u1, v0, v1, look, label] = piece;
  std::string svg = face(look, false,
                         fmt::format("M{}L{}L{}L{}", at(u0, v0, 0), at(u1, v0, 0),
                                     at(u1, v0, height), at(u0, v0, height)));
  svg += face(look, false,
              fmt::format("M{}L{}L{}L{}", at(u1, v0, 0), at(u1, v1, 0), at(u1, v1, height),
                          at(u1, v0, height)));
  svg +=
      face(look, true,
           fmt::format("M{}L{}L{}L{}", at(u0, v0, 0), at(u1, v0, 0), at(u1, v1, 0), at(u0, v1, 0)));
  const double u = (u0 + u1) / 2, v = (v0 + v1) / 2;
  return svg +
         text(x + u * slab_width + v * depth_x, y + v * depth_y + 4, label, "middle", ink, 11);
}

const char* rank_name(int rank) { return rank == 0 ? "r0" : "r1"; }
Look look_of(int rank) { return rank == 0 ? Look::rank_0 : Look::rank_1; }
Piece whole(int rank) { return {.look = look_of(rank), .label = rank_name(rank)}; }

// Two halves with a gap, the one in the back first.
std::vector<Piece> halves_of_width() {
  return {{.u1 = 0.48, .look = Look::rank_0, .label = "r0"},
          {.u0 = 0.52, .look = Look::rank_1, .label = "r1"}};
}
std::vector<Piece> halves_of_depth() {
  return {{.v0 = 0.54, .look = Look::rank_1, .label = "r1"},
          {.v1 = 0.46, .look = Look::rank_0, .label = "r0"}};
}

// The pieces of one layer's output for one sequence.
std::vector<Piece> slab(LitAxis lit, int layer, int tower) {
  switch (lit) {
    case LitAxis::batch:
    case LitAxis::experts:
    case LitAxis::weights: return {whole(tower / (towers / 2))};
    case LitAxis::layers: return {whole(layer / (layers / 2))};
    case LitAxis::width: return halves_of_width();
    case LitAxis::tokens:
    case LitAxis::sequence: return halves_of_depth();
    case LitAxis::memory:
      if (layer % 2 == 0) return {{.label = "kept"}};
      return {{.look = Look::dropped, .label = "dropped"}};
    case LitAxis::all: break;
  }
  return {{}};
}

// The pieces of one layer's weights.
std::vector<Piece> weights(LitAxis lit, int layer) {
  if (lit == LitAxis::layers) return {whole(layer / (layers / 2))};
  if (lit == LitAxis::width || lit == LitAxis::tokens) return halves_of_width();
  if (lit == LitAxis::weights || lit == LitAxis::experts) return halves_of_depth();
  const bool copies = lit == LitAxis::batch || lit == LitAxis::sequence;
  return {{.label = copies ? "r0 and r1" : "weights"}};
}

// The four axes with their names. A lit one is thick, red and bold, and says so.
std::string axes(LitAxis lit) {
  const auto is = [&](LitAxis axis) { return lit == axis || lit == LitAxis::all; };
  const bool layer = is(LitAxis::layers) || lit == LitAxis::memory, width = is(LitAxis::width);
  const bool batch = is(LitAxis::batch) || lit == LitAxis::weights || lit == LitAxis::experts;
  const bool depth = is(LitAxis::sequence) || lit == LitAxis::tokens;
  const auto name = [](double x, double y, const char* words, const char* anchor, bool bright) {
    return text(x, y, words, anchor, bright ? svg::lit : quiet, bright ? 13 : 12, bright);
  };
  const double right = tower_x(towers - 1) + slab_width, top = layer_y(layers - 1) + depth_y;
  const double left = tower_x(0) - 18, bottom = lowest + slab_height;
  return arrow(left, bottom, left, top, layer) +
         name(left - 8, lowest - 120, "layers,", "end", layer) +
         name(left - 8, lowest - 104, "L of them", "end", layer) +
         arrow(tower_x(0) + depth_x, top - 8, tower_x(0) + depth_x + slab_width, top - 8, width) +
         name(tower_x(0) + depth_x + slab_width + 10, top - 4, "width, C numbers", "start", width) +
         arrow(right + 14, bottom, right + 14 + depth_x, bottom + depth_y, depth) +
         name(right + 38, bottom - 4, "sequence,", "start", depth) +
         name(right + 38, bottom + 12, "T tokens", "start", depth) +
         arrow(tower_x(0), bottom + 34, right, bottom + 34, batch) +
         name((tower_x(0) + right) / 2, bottom + 52, "batch, B sequences", "middle", batch);
}

std::string legend(LitAxis lit) {
  if (lit == LitAxis::all || lit == LitAxis::memory) return "";
  std::string svg;
  for (const int rank : {0, 1}) {
    const double x = weights_at + 92 * rank;
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"376\" width=\"16\" height=\"12\" fill=\"{}\" stroke=\"#333\"/>\n",
        x, rank == 0 ? "#4477aa" : "url(#hatch)");
    svg += text(x + 22, 386, fmt::format("rank {}: {}", rank, rank_name(rank)));
  }
  return svg;
}

}  // namespace

std::string TransformerPicture::markdown() const {
  return fmt::format("![{}. {}](../../course/pictures/{})", title, caption, file);
}

std::vector<TransformerPicture> transformer_pictures() {
  return {
      {LitAxis::all,
       "transformer.svg",
       "A transformer and its four axes",
       "A slab is one layer's output for one sequence: T tokens, C numbers each. Lessons 13 to 25 "
       "cut these axes.",
       {"12"}},
      {LitAxis::batch,
       "transformer_batch.svg",
       "Cut: the batch",
       "Data parallelism: a rank has some of the sequences, and all weights.",
       {"13"}},
      {LitAxis::weights,
       "transformer_weights.svg",
       "Cut: the batch, and what belongs to the weights",
       "ZeRO and FSDP: a rank has some of the sequences, and keeps a part of what belongs to every "
       "layer's weights.",
       {"14", "15", "16"}},
      {LitAxis::memory,
       "transformer_memory.svg",
       "Not cut: some layers' activations are dropped",
       "Activation checkpointing: the backward pass computes again what the forward pass did not "
       "keep.",
       {"17"}},
      {LitAxis::layers,
       "transformer_layers.svg",
       "Cut: the layers",
       "Pipelines: a rank has some of the layers, with their weights, for every sequence.",
       {"18", "19"}},
      {LitAxis::width,
       "transformer_width.svg",
       "Cut: the width",
       "Tensor parallelism: a rank has a part of every layer's width, and the weights of that "
       "part.",
       {"20"}},
      {LitAxis::tokens,
       "transformer_tokens.svg",
       "Cut: the tokens, between layers whose width is cut",
       "Sequence parallelism: outside attention and feed-forward a rank has some of the tokens.",
       {"21", "22"}},
      {LitAxis::sequence,
       "transformer_sequence.svg",
       "Cut: the sequence",
       "Context parallelism: a rank has some tokens of every sequence, and all weights.",
       {"23", "24"}},
      {LitAxis::experts,
       "transformer_experts.svg",
       "Cut: the batch, and the experts of every layer",
       "Expert parallelism: a rank has some of the sequences and some of the experts. Tokens "
       "travel "
       "to theirs, and back.",
       {"25"}}};
}

std::string transformer_svg(const TransformerPicture& picture) {
  const LitAxis lit = picture.lit;
  std::string svg = svg::paper(
      900, 400, picture.title,
      "<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
      "<path d=\"M0 0H6V6H0Z\" fill=\"#e08a4f\"/><path d=\"M0 6L6 0\" stroke=\"#7a3510\"/>"
      "</pattern>\n");
  svg += text(20, 28, picture.title, "start", ink, 15, true) + text(20, 48, picture.caption);
  for (int layer = 0; layer < layers; ++layer) {
    for (const Piece& piece : weights(lit, layer))
      svg += draw(piece, weights_at, layer_y(layer), slab_height / 2);
    for (int tower = 0; tower < towers; ++tower)
      for (const Piece& piece : slab(lit, layer, tower))
        svg += draw(piece, tower_x(tower), layer_y(layer), slab_height);
  }
  for (int tower = 0; tower < towers; ++tower)
    svg += text(tower_x(tower) + slab_width / 2, lowest + slab_height + 18,
                fmt::format("sequence {}", tower), "middle", ink, 11);
  const bool experts = lit == LitAxis::experts, cut_weights = experts || lit == LitAxis::weights;
  svg += text(weights_at, lowest + 28,
              experts ? "experts of a layer, shared out;" : "weights: one set a layer,", "start",
              cut_weights ? svg::lit : ink, 12, cut_weights);
  svg += text(weights_at, lowest + 44,
              experts ? "the rest is whole on each rank" : "used by every sequence and token");
  return svg + axes(lit) + legend(lit) + "</svg>\n";
}

}  // namespace yotta
