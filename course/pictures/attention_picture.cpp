#include "course/pictures/attention_picture.hpp"

#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/rope.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::box;
using svg::ink;
using svg::quiet;
using svg::text;

constexpr const char *old_fill = "#cfcfcf", *new_fill = "#77aadd";

std::string path(const std::string& points, const char* color, double width,
                 const char* more = "") {
  return fmt::format("<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
                     points, color, width, more);
}

// ---- online softmax

constexpr double key_pitch = 44, bar_width = 30, score_unit = 22, weight_unit = 90, scores_at = 182,
                 weights_at = 316;

std::string axis(double x, double y, const std::string& name) {
  return path(fmt::format("{:.0f} {:.0f}h{:.0f}", x, y, key_pitch * 5 + 6), "#555", 1) +
         text(x, y - 110, name, "start", ink, 12, true);
}

// The scores of all five keys, those still to come as empty boxes, and the largest so far.
std::string scores_svg(double x, const OnlineStep& step, double m_before) {
  std::string svg = axis(x, scores_at, "scores s, and their maximum m so far");
  for (size_t j = 0; j < online_scores.size(); ++j) {
    const auto key = static_cast<int64_t>(j);
    const bool come = key < step.first + step.keys, now = come && key >= step.first;
    const double left = x + 6 + key_pitch * static_cast<double>(j),
                 height = score_unit * online_scores[j];
    svg += box(left, scores_at - height, bar_width, height,
               now    ? new_fill
               : come ? old_fill
                      : "none",
               "#888", come ? "" : " stroke-dasharray=\"3 3\"") +
           text(left + bar_width / 2, scores_at - height - 4,
                fmt::format("{:.0f}", online_scores[j]), "middle", ink, 11);
  }
  const auto level = [&](double m, const char* color, const char* dash) {
    const double y = scores_at - score_unit * m;
    return path(fmt::format("{:.0f} {:.0f}h{:.0f}", x, y, key_pitch * 5 + 6), color, 2, dash);
  };
  if (step.first > 0 && m_before != step.m)
    svg += level(m_before, quiet, " stroke-dasharray=\"6 4\"");
  return svg + level(step.m, svg::lit, "") +
         text(x + key_pitch * 5 + 10, scores_at - score_unit * step.m + 4,
              fmt::format("m = {:.0f}", step.m), "start", svg::lit, 12, true);
}

// What each key weighs now, e^(s - m), and as dashed boxes what it weighed before this block.
std::string weights_svg(double x, const OnlineStep& step, const OnlineStep* before) {
  std::string svg = axis(x, weights_at, "weights e^(s - m); their sum is l");
  for (size_t j = 0; j < step.weights.size(); ++j) {
    const double left = x + 6 + key_pitch * static_cast<double>(j),
                 height = weight_unit * step.weights[j];
    const bool is_old = static_cast<int64_t>(j) < step.first;
    if (is_old && step.kept != 1)
      svg += box(left, weights_at - weight_unit * before->weights[j], bar_width,
                 weight_unit * before->weights[j], "none", quiet, " stroke-dasharray=\"3 3\"");
    svg += box(left, weights_at - height, bar_width, height, is_old ? old_fill : new_fill) +
           text(left + bar_width / 2, weights_at + 14, fmt::format("{:.3f}", step.weights[j]),
                "middle", ink, 11);
  }
  return svg;
}

std::string sums_svg(double x, const OnlineStep& step, const OnlineStep* before) {
  double y = 354;
  std::string svg;
  const auto say = [&](const std::string& words, bool bold = false) {
    svg += text(x, y, words, "start", ink, 12, bold);
    y += 18;
  };
  if (before == nullptr) {
    say("nothing came before");
    say(fmt::format("l = {:.4f}", step.l));
    say(fmt::format("o = {:.4f}", step.o));
  } else {
    say(fmt::format("old sums times e^({:.0f} - {:.0f}) = {:.4f}", before->m, step.m, step.kept));
    say(fmt::format("l = {:.4f} x {:.4f} + {:.4f} = {:.4f}", step.kept, before->l, step.sum,
                    step.l));
    say(fmt::format("o = {:.4f} x {:.4f} + {:.4f} = {:.4f}", step.kept, before->o, step.weighted,
                    step.o));
  }
  say(fmt::format("o / l = {:.4f}", step.o / step.l), true);
  return svg;
}

// ---- rope

constexpr int64_t head = 16;
constexpr double radius = 100, circle_top = 230;

std::string circle(double x, const std::string& title, const std::string& below) {
  return text(x, 82, title, "middle", ink, 13, true) + text(x, 100, below, "middle") +
         fmt::format(
             "<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"{:.0f}\" fill=\"none\" stroke=\"#bbb\"/>\n",
             x, circle_top, radius) +
         path(fmt::format("{:.0f} {:.0f}h{:.0f}", x - radius, circle_top, 2 * radius), "#ddd", 1) +
         path(fmt::format("{:.0f} {:.0f}v{:.0f}", x, circle_top - radius, 2 * radius), "#ddd", 1);
}

std::string pair_arrow(double x, const RopePair& pair, const char* color, const std::string& name) {
  const double end_x = x + radius * pair[0], end_y = circle_top - radius * pair[1];
  return path(fmt::format("{:.1f} {:.1f}L{:.1f} {:.1f}", x, circle_top, end_x, end_y), color, 2.4) +
         fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", end_x, end_y,
                     color) +
         text(x + 1.14 * radius * pair[0], circle_top - 1.14 * radius * pair[1] + 4, name, "middle",
              color, 12, true);
}

constexpr const char* position_colors[] = {"#2f6fa7", "#c2552d", "#8a7400", "#1f8a63"};

double frequency(int64_t i) { return std::pow(10000.0, -2.0 * static_cast<double>(i) / head); }

// The pair (1, 0) at positions 0 to 3.
std::string turning(double x, int64_t i) {
  std::string svg = circle(x, fmt::format("pair {} of a head of {}", i, head),
                           fmt::format("{:.3f} radians a position", frequency(i)));
  for (int64_t position = 0; position < 4; ++position)
    svg += pair_arrow(x, turned_pair({1, 0}, i, head, position), position_colors[position],
                      std::to_string(position));
  return svg;
}

// A query and a key two positions apart, at two places of the text.
std::string distance(double x) {
  const RopePair query = {1, 0}, key = {0.8, -0.6};
  std::string svg = circle(x, "a query and a key, 2 positions apart", "pair 1 of both");
  double y = 358;
  for (const int64_t at : {3, 9}) {
    const RopePair q = turned_pair(query, 1, head, at), k = turned_pair(key, 1, head, at - 2);
    const char* const color = position_colors[at == 3 ? 0 : 1];
    svg += pair_arrow(x, q, color, fmt::format("q{}", at)) +
           pair_arrow(x, k, color, fmt::format("k{}", at - 2)) +
           text(x, y,
                fmt::format("q at {}, k at {}: their product is {:.4f}", at, at - 2,
                            q[0] * k[0] + q[1] * k[1]),
                "middle", color, 12, true);
    y += 18;
  }
  return svg;
}

}  // namespace

std::vector<OnlineStep> online_steps() {
  std::vector<OnlineStep> steps;
  OnlineSums<double> sums;
  double o = 0;
  const auto all = static_cast<int64_t>(online_scores.size());
  for (int64_t first = 0; first < all; first += online_block) {
    const int64_t keys = std::min(online_block, all - first);
    std::vector<double> block(online_scores.begin() + first, online_scores.begin() + first + keys);
    const OnlineSums<double> before = sums;
    online_softmax_row(block.data(), keys, 1.0, sums, &o, 1);
    OnlineStep step{first, keys, std::exp(before.m - sums.m), sums.m, sums.l, 0, 0, 0};
    step.sum = sums.l - step.kept * before.l;
    for (int64_t j = 0; j < keys; ++j)
      step.weighted +=
          block[static_cast<size_t>(j)] * online_values[static_cast<size_t>(first + j)];
    step.o = o += step.weighted;
    for (int64_t j = 0; j < first + keys; ++j)
      step.weights.push_back(std::exp(online_scores[static_cast<size_t>(j)] - sums.m));
    steps.push_back(step);
  }
  return steps;
}

RopePair turned_pair(RopePair pair, int64_t i, int64_t d, int64_t position) {
  RankContext rank;
  const ContextScope scope(rank);
  Tensor x = Tensor::zeros({1, 1, 1, d}, DType::f64);
  x.data<double>()[i] = pair[0];
  x.data<double>()[i + d / 2] = pair[1];
  const Tensor y = rope(x, Positions{position});
  return {y.data<double>()[i], y.data<double>()[i + d / 2]};
}

std::string online_softmax_svg() {
  const char* const title = "Online softmax: one query, five keys, in blocks of two";
  std::string svg = svg::paper(900, 462, title);
  svg += text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              "When a block brings a larger score, m rises, and all sums so far shrink by one "
              "factor. The values are 1, 2, 3, 4, 5.");
  const std::vector<OnlineStep> steps = online_steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const double x = 20 + 296 * static_cast<double>(i);
    const OnlineStep* const before = i == 0 ? nullptr : &steps[i - 1];
    svg += scores_svg(x, steps[i], before == nullptr ? 0 : before->m) +
           weights_svg(x, steps[i], before) + sums_svg(x, steps[i], before);
  }
  const double y = 446;
  return svg + box(20, y - 10, 12, 12, new_fill) + text(38, y, "key of this block") +
         box(160, y - 10, 12, 12, old_fill) + text(178, y, "key of a block before") +
         box(330, y - 10, 12, 12, "none", "#888", " stroke-dasharray=\"3 3\"") +
         text(348, y, "scores: a key to come; weights: before this block") +
         path(fmt::format("694 {:.0f}h24", y - 4), svg::lit, 2) + text(724, y, "m now") +
         path(fmt::format("776 {:.0f}h24", y - 4), quiet, 2, " stroke-dasharray=\"6 4\"") +
         text(806, y, "m before") + "</svg>\n";
}

std::string rope_svg() {
  const char* const title = "rope: a token's position turns each pair of numbers of a query or key";
  std::string svg = svg::paper(900, 416, title);
  svg += text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              "Left, middle: the pair (1, 0) at positions 0 to 3. Right: if both move on, their "
              "angle and product stay.") +
         turning(150, 0) + turning(450, 1) + distance(750) +
         text(20, 402,
              "Across: the pair's first number, number i of the head. Up: number i + d/2. At an "
              "arrow: the token's position.");
  return svg + "</svg>\n";
}

}  // namespace yotta
