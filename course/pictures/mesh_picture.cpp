#include "course/pictures/mesh_picture.hpp"

#include <array>
#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/machine/chip.hpp"
#include "yotta/parallel/gradient_groups.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::ink;
using svg::text;

constexpr MeshShape shape{.tp = 2, .cp = 2, .pp = 2, .dp_shard = 2};
constexpr double side = 88, high = 62;

struct Shown {
  Axis axis;
  const char *color, *dash, *name, *sends;
};
constexpr std::array<Shown, 4> shown = {
    {{Axis::tp, "#b2182b", "", "tp", "activations, in every layer: the fastest links"},
     {Axis::cp, "#2166ac", " stroke-dasharray=\"9 3\"", "cp", "keys and values, in every layer"},
     {Axis::pp, "#1b7837", " stroke-dasharray=\"2 3\"", "pp",
      "activations, once for a stage and microbatch"},
     {Axis::dp_shard, "#762a83", " stroke-dasharray=\"9 3 2 3\"", "dp",
      "weights and gradients, once a step"}}};

size_t index_of(Axis axis) { return static_cast<size_t>(axis); }

// tp goes right, cp down, pp right again, dp to the node below.
double left_of(const Coordinates& at) { return 40 + at[0] * 110 + at[2] * 232; }
double top_of(const Coordinates& at) {
  return 74 + at[1] * 82 + at[index_of(Axis::dp_shard)] * 214;
}

std::string line(const Shown& s, double x0, double y0, double x1, double y1, double bend) {
  return fmt::format(
      "<path d=\"M{:.0f} {:.0f}Q{:.0f} {:.0f} {:.0f} {:.0f}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"3\"{}/>\n",
      x0, y0, (x0 + x1) / 2 - (y1 - y0 > 40 ? bend : 0), (y0 + y1) / 2 - (x1 - x0 > 40 ? bend : 0),
      x1, y1, s.color, s.dash);
}

std::string gpu(int rank) {
  const Coordinates at = coordinates_of(shape, rank);
  const double x = left_of(at), y = top_of(at);
  return box(x, y, side, high, at[2] == 0 ? "#f7f3e8" : "#e8f0f7") +
         text(x + side / 2, y + 22, fmt::format("GPU {}", rank), "middle", ink, 14, true) +
         text(x + side / 2, y + 39, fmt::format("tp {}  cp {}", at[0], at[1]), "middle", ink, 11) +
         text(x + side / 2, y + 54,
              fmt::format("pp {}  dp {}", at[2], at[index_of(Axis::dp_shard)]), "middle", ink, 11);
}

std::string groups_of_first() {
  std::string drawn;
  const Coordinates own = coordinates_of(shape, 0);
  for (const Shown& s : shown) {
    const Coordinates at = coordinates_of(shape, group_of(shape, 0, std::array{s.axis}).back());
    const double x0 = left_of(own), y0 = top_of(own), x1 = left_of(at), y1 = top_of(at);
    if (s.axis == Axis::tp) drawn += line(s, x0 + side, y0 + 30, x1, y1 + 30, 0);
    if (s.axis == Axis::cp) drawn += line(s, x0 + 60, y0 + high, x1 + 60, y1, 0);
    if (s.axis == Axis::pp) drawn += line(s, x0 + 44, y0, x1 + 44, y1, 32);
    if (s.axis == Axis::dp_shard) drawn += line(s, x0 + 8, y0 + high, x1 + 8, y1, 44);
  }
  return drawn;
}

// A place in the second picture: powers of two of X to the right, powers of ten of seconds up.
double right_of(double X) { return 90 + 93 * (std::log2(X) - 4); }
double height_of(double seconds) { return 330 - 67.5 * (std::log10(seconds) + 5); }

template <class Seconds>
std::string curve(Seconds seconds, const char* color, const char* dash) {
  std::string path;
  for (double X = 16; X <= 4096; X *= 2)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", right_of(X),
                        height_of(seconds(X)));
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"{}/>\n", path,
                     color, dash);
}

}  // namespace

std::string mesh_svg() {
  std::string drawn = svg::paper(900, 500, "16 GPUs as a mesh of tp 2, cp 2, pp 2 and dp 2");
  drawn += text(20, 28, "16 GPUs, two nodes: rank = tp + 2 (cp + 2 (pp + 2 dp))", "start", ink, 15,
                true);
  for (const int node : {0, 1}) {
    drawn += box(24, 58 + 214 * node, 470, 178, "none", "#999") +
             text(484, 230 + 214 * node, fmt::format("node {}", node), "end", svg::quiet, 12);
  }
  drawn += groups_of_first();
  for (int rank = 0; rank < 16; ++rank) drawn += gpu(rank);
  drawn += text(520, 90, "GPU 0 and its partner along each axis:", "start", ink, 13, true);
  double y = 122;
  for (const Shown& s : shown) {
    const std::vector<int> group = group_of(shape, 0, std::array{s.axis});
    drawn += line(s, 520, y - 4, 556, y - 4, 0) +
             text(566, y, fmt::format("{}: GPUs {} and {}", s.name, group[0], group[1]), "start",
                  ink, 13) +
             text(566, y + 17, s.sends, "start", ink, 11);
    y += 46;
  }
  drawn += box(520, 310, 14, 14, "#f7f3e8") + text(542, 322, "first stage of the layers") +
           box(520, 334, 14, 14, "#e8f0f7") + text(542, 346, "second stage");
  drawn += text(520, 384, "dp: different sequences", "start", ink, 12) +
           text(520, 402, "cp: different tokens of a sequence", "start", ink, 12) +
           text(520, 420, "pp: different layers", "start", ink, 12) +
           text(520, 438, "tp: different columns and rows of a matrix", "start", ink, 12);
  return drawn + "</svg>\n";
}

FsdpTpMixture pictured_mixture(double tokens_per_chip) {
  const Chip& chip = chip_named("v5p");
  return {tokens_per_chip * 4096, 8192, 32768, 4096, chip.bf16, 2 * chip.link, 2, 1};
}

std::string mixture_svg() {
  const FsdpTpMixture m = pictured_mixture(500);
  std::string drawn = svg::paper(900, 400, "Seconds that FSDP and tensor parallelism send");
  drawn += text(20, 28, "A feed-forward layer on 4096 TPU v5p, 500 tokens per chip: forward",
                "start", ink, 15, true);
  drawn += box(90, 60, 744, 270, "none", "#999");
  for (int power = 4; power <= 12; ++power)
    drawn +=
        text(right_of(std::exp2(power)), 348, fmt::format("{}", 1 << power), "middle", ink, 11);
  constexpr std::pair<double, const char*> marks[] = {
      {1e-5, "10 us"}, {1e-4, "100 us"}, {1e-3, "1 ms"}, {1e-2, "10 ms"}, {1e-1, "100 ms"}};
  for (const auto& [seconds, words] : marks)
    drawn += text(82, height_of(seconds) + 4, words, "end", ink, 11);
  const double math = mixture_math_seconds(m), best = best_fsdp_ranks(m);
  drawn += curve([&](double X) { return mixture_fsdp_seconds(m, X); }, "#762a83",
                 " stroke-dasharray=\"9 3\"") +
           curve([&](double X) { return mixture_tp_seconds(m, X); }, "#b2182b",
                 " stroke-dasharray=\"2 3\"") +
           curve([&](double X) { return mixture_sent_seconds(m, X); }, "#222", "") +
           curve([&](double) { return math; }, "#1b7837", " stroke-dasharray=\"9 3 2 3\"");
  drawn += fmt::format("<path d=\"M{0:.1f} 60L{0:.1f} 330\" stroke=\"#777\"/>\n", right_of(best)) +
           text(right_of(best) + 6, 76, fmt::format("X_opt = {:.0f}", best), "start", ink, 12);
  drawn += text(460, 370, "X: ranks of FSDP; tp has 4096 / X", "middle", ink, 12);
  double x = 96;
  for (const auto& [color, dash, words] :
       {std::tuple{"#762a83", " stroke-dasharray=\"9 3\"", "FSDP's weights"},
        std::tuple{"#b2182b", " stroke-dasharray=\"2 3\"", "tp's tokens"},
        std::tuple{"#222", "", "both, one after the other"},
        std::tuple{"#1b7837", " stroke-dasharray=\"9 3 2 3\"", "computing"}}) {
    drawn += fmt::format("<path d=\"M{0:.0f} 388h36\" stroke=\"{1}\" stroke-width=\"2.5\"{2}/>\n",
                         x, color, dash) +
             text(x + 42, 392, words, "start", ink, 11);
    x += 190;
  }
  return drawn + "</svg>\n";
}

}  // namespace yotta
