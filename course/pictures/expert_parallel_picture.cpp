#include "course/pictures/expert_parallel_picture.hpp"

#include <algorithm>
#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/core/random.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/parallel/expert_parallel.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::ink;
using svg::rank_colors;
using svg::text;

// ---- one ----

constexpr int64_t journey_tokens = 3, journey_k = 2, journey_experts = 4;
constexpr int32_t journey_choices[] = {2, 0, 0, 1, 1, 3, 2, 1, 3, 2, 2, 3};  // (6, k)

std::vector<JourneyRow> rows_of(const Tensor& labels) {
  std::vector<JourneyRow> rows;
  for (int64_t i = 0; i < labels.dim(0); ++i)
    rows.push_back(
        {static_cast<int64_t>(labels.item({i, 0})), static_cast<int64_t>(labels.item({i, 1}))});
  return rows;
}

JourneyRank journey_of(const Communicator& ep) {
  const int64_t first = journey_tokens * ep.rank();
  const std::vector<int32_t> all(std::begin(journey_choices), std::end(journey_choices));
  const Tensor expert = Tensor::from(all, {journey_tokens * ep.size(), journey_k})
                            .rows(first, first + journey_tokens);
  const ExpertRows sorted = sort_by_expert(expert, journey_experts);
  Tensor labels = Tensor::empty({sorted.assignment.numel(), 2});
  for (int64_t i = 0; i < labels.dim(0); ++i) {
    const int64_t a = sorted.assignment.data<int32_t>()[i];
    labels.data<float>()[2 * i] = static_cast<float>(first + a / journey_k);
    labels.data<float>()[2 * i + 1] =
        static_cast<float>(expert.item({a / journey_k, a % journey_k}));
  }
  const Tensor counts = all_counts(sorted.counts, ep, "ep.counts");
  const DispatchPlan plan = dispatch_plan(counts.span<int64_t>(), ep.size(), ep.rank());
  RowsInFlight there(labels, plan.to, plan.from, ep, {});
  return {rows_of(labels), rows_of(plan.by_expert(there.wait())), plan.to};
}

constexpr double cell = 24, lane = 210, lane_top = 104, token_x = 60, leaving_x = 190, held_x = 430,
                 back_x = 670, y_x = 800;

double row_y(int rank, size_t row) {
  return lane_top + lane * rank + cell * static_cast<double>(row);
}
int home_of(int64_t token) { return static_cast<int>(token / journey_tokens); }
std::string name_of(int64_t token) { return std::string(1, static_cast<char>('a' + token)); }

std::string row_box(double x, double y, const JourneyRow& row) {
  return box(x, y, 72, cell - 4, rank_colors[home_of(row.token)]) +
         text(x + 36, y + 14, fmt::format("{} for {}", name_of(row.token), row.expert), "middle");
}
std::string line(double x0, double y0, double x1, double y1, bool leaves) {
  return fmt::format(
      "<path d=\"M{:.0f} {:.0f}L{:.0f} {:.0f}\" stroke=\"{}\" stroke-width=\"{}\" "
      "fill=\"none\"/>\n",
      x0, y0 + cell / 2 - 2, x1, y1 + cell / 2 - 2, leaves ? svg::lit : svg::quiet, leaves ? 2 : 1);
}

// A rank's own tokens, at x.
std::string own_tokens(int rank, double x, bool sums) {
  std::string svg;
  for (int64_t i = 0; i < journey_tokens; ++i) {
    const double y = row_y(rank, static_cast<size_t>(2 * i));
    const std::string name = name_of(journey_tokens * rank + i);
    svg += box(x, y + cell / 2, 56, cell - 4, rank_colors[rank]) +
           text(x + 28, y + cell / 2 + 14, sums ? fmt::format("y of {}", name) : name, "middle");
  }
  return svg;
}

std::string lane_svg(int rank, const std::vector<JourneyRank>& ranks) {
  const JourneyRank& mine = ranks[static_cast<size_t>(rank)];
  std::string svg =
      text(12, row_y(rank, 2) + 34, fmt::format("rank {}", rank), "start", ink, 12, true);
  for (size_t i = 0; i < mine.leaving.size(); ++i) {
    const JourneyRow& row = mine.leaving[i];
    const double y = row_y(rank, i);
    const double own =
        row_y(rank, static_cast<size_t>(2 * (row.token % journey_tokens))) + cell / 2;
    svg += line(token_x + 56, own, leaving_x, y, false) + line(back_x + 72, y, y_x, own, false);
    for (int other = 0; other < journey_ranks; ++other) {
      const auto& held = ranks[static_cast<size_t>(other)].held;
      const auto at = std::find(held.begin(), held.end(), row);
      if (at == held.end()) continue;
      const double there = row_y(other, static_cast<size_t>(at - held.begin()));
      svg += line(leaving_x + 72, y, held_x, there, other != rank) +
             line(held_x + 72, there, back_x, y, other != rank);
    }
    svg += row_box(leaving_x, y, row) + row_box(back_x, y, row);
  }
  for (size_t i = 0; i < mine.held.size(); ++i)
    svg += row_box(held_x, row_y(rank, i), mine.held[i]);
  return svg + own_tokens(rank, token_x, false) + own_tokens(rank, y_x, true);
}

// ---- two ----

constexpr int64_t load_experts = 16, load_tokens = 1024, load_k = 2, load_width = 8;

Tensor tokens_with_a_common_part(int batch) {
  const Random random(25, "expert_loads"), common(25, "common");
  Tensor x = Tensor::empty({load_tokens, load_width});
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] =
        static_cast<float>(random.normal(static_cast<uint64_t>(batch * x.numel() + i)) +
                           common.normal(static_cast<uint64_t>(i % load_width)));
  return x;
}

// ---- three ----

constexpr int64_t hot_tokens = 64, hot_width = 16, hot_hidden = 32;

// Token i is the unit vector of the expert that it goes to.
Tensor directed_tokens(double hot) {
  Tensor x = Tensor::zeros({hot_tokens, hot_width});
  const auto to_first = static_cast<int64_t>(hot * static_cast<double>(hot_tokens));
  for (int64_t i = 0; i < hot_tokens; ++i)
    x.data<float>()[i * hot_width + (i < to_first ? 0 : i % 4)] = 1;
  return x;
}

const char* const hot_kinds[] = {"experts", "exchange of rows", "everything else"};
int kind_of(const TraceEvent& event) {
  if (event.name == "grouped_linear") return 0;
  return event.name.starts_with("ep.") ? 1 : 2;
}

std::string hot_panel(double hot, double y, const std::string& title, double scale) {
  const Timed run = hot_expert_run(hot);
  std::string svg = text(20, y, title, "start", ink, 13, true);
  for (int rank = 0; rank < 4; ++rank) {
    const double top = y + 12 + 28 * rank;
    svg += text(20, top + 15, fmt::format("rank {}", rank)) +
           box(90, top, scale * run.seconds(), 20, "#fff", "#bbb", " stroke-dasharray=\"3 3\"");
    for (const TraceEvent& event : run.trace.ranks[static_cast<size_t>(rank)])
      if (event.kind == EventKind::op || event.kind == EventKind::recv)
        svg += box(90 + scale * event.begin, top, scale * event.seconds(), 20,
                   timeline_color(kind_of(event)), "none");
  }
  const double axis = y + 128;
  svg += fmt::format("<path d=\"M90 {:.0f}H{:.1f}\" stroke=\"#333\"/>\n", axis,
                     90 + scale * run.seconds());
  const double step = 0.1;
  for (double t = 0; t <= run.seconds(); t += step)
    svg += fmt::format("<path d=\"M{:.1f} {:.0f}v5\" stroke=\"#333\"/>\n", 90 + scale * t, axis) +
           text(90 + scale * t, axis + 18, fmt::format("{:.1f} s", t), "middle", ink, 11);
  return svg;
}

}  // namespace

std::vector<JourneyRank> expert_journey() {
  std::vector<JourneyRank> ranks(journey_ranks);
  run_ranks(journey_ranks,
            [&](Communicator& ep) { ranks[static_cast<size_t>(ep.rank())] = journey_of(ep); });
  return ranks;
}

std::string expert_parallel_svg() {
  const char* const title = "Six tokens travel to their experts, and back";
  std::string svg = svg::paper(900, 540, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg += text(20, 48,
              "Two ranks, k = 2: \"a for 2\" is token a on its way to expert 2. Rank 0 holds "
              "experts 0 and 1, rank 1 experts 2 and 3.");
  const std::pair<double, const char*> heads[] = {{token_x + 28, "tokens"},
                                                  {leaving_x + 36, "by expert"},
                                                  {(leaving_x + held_x) / 2 + 36, "dispatch"},
                                                  {held_x + 36, "by expert held"},
                                                  {(held_x + back_x) / 2 + 36, "combine"},
                                                  {back_x + 36, "results"},
                                                  {y_x + 28, "sums"}};
  for (const auto& [x, words] : heads) {
    const bool sends = words[0] == 'd' || words[0] == 'c';
    svg += text(x, 84, words, "middle", sends ? svg::lit : ink, 12, true);
  }
  const std::vector<JourneyRank> ranks = expert_journey();
  for (int rank = 0; rank < journey_ranks; ++rank) svg += lane_svg(rank, ranks);
  svg += svg::rank_legend(20, 522, journey_ranks);
  svg += text(210, 522, "colour: the rank that a token lives on", "start");
  svg += line(470, 508, 500, 508, true) + text(508, 522, "leaves its rank") +
         line(620, 508, 650, 508, false);
  return svg + text(658, 522, "stays on it") + "</svg>\n";
}

RouterLoads router_loads(RouterOptions options, int batches) {
  options.width = load_width, options.experts = load_experts, options.top_k = load_k;
  options.initial = normal(0.5);
  Router router("mlp.router", options, {25});
  std::vector<ParameterPtr> parameters;
  router.add_parameters(parameters);
  RouterBiases biases(options.bias_rate);
  for (int batch = 0;; ++batch) {
    Saved saved;
    const Routing to = router.route(tokens_with_a_common_part(batch), saved);
    if (batch == batches) {
      const std::vector<double> counts = expert_counts(to.expert, load_experts).values();
      return {{counts.begin(), counts.end()}, std::sqrt(z_loss(1, saved.get("logits")))};
    }
    router.backward_input(zeros_like(to.weight, Where::current()), saved);
    router.backward_weight(saved);
    Tensor &weight = parameters[0]->value, &gradient = parameters[0]->grad;
    for (int64_t i = 0; i < weight.numel(); ++i)
      weight.data<float>()[i] -= 5 * gradient.data<float>()[i];
    gradient.zero();
    biases.take(parameters);
    biases.step();
  }
}

std::string expert_capacity_svg() {
  const char* const title = "Capacity, and the share of assignments that it drops";
  constexpr double left = 110, bottom = 330, wide = 230, tall = 3.3;  // pixels: a factor; a percent
  std::string svg = svg::paper(900, 400, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg += text(20, 48,
              fmt::format("{} experts, {} tokens, k = {}: an expert takes factor times its even "
                          "share of {} rows, and drops the rest.",
                          load_experts, load_tokens, load_k, load_tokens * load_k / load_experts));
  svg += text(20, 72, "dropped");
  for (int percent = 0; percent <= 70; percent += 10)
    svg += fmt::format("<path d=\"M{:.0f} {:.1f}H{:.0f}\" stroke=\"#ddd\"/>\n", left,
                       bottom - tall * percent, left + 2.5 * wide) +
           text(left - 8, bottom - tall * percent + 4, fmt::format("{}%", percent), "end");
  for (int tenth = 5; tenth <= 30; tenth += 5)
    svg += text(left + wide * (tenth - 5) / 10.0, bottom + 20, fmt::format("{:.1f}", tenth / 10.0),
                "middle");
  svg += text(left + wide * 1.25, bottom + 42, "capacity factor", "middle");
  const std::pair<std::string, std::vector<int64_t>> curves[] = {
      {"router as made", router_loads(bias_router, 0).rows},
      {"10 batches with a bias", router_loads(bias_router, 10).rows},
      {"50 batches", router_loads(bias_router, 50).rows}};
  for (size_t i = 0; i < std::size(curves); ++i) {
    const auto& [name, loads] = curves[i];
    const char* const color = svg::rank_colors[i == 2 ? 3 : i];
    std::string path;
    for (int step = 0; step <= 100; ++step) {
      const double factor = (20 + step) / 40.0;
      path += fmt::format("{}{:.1f} {:.1f}", step == 0 ? "M" : "L", left + wide * step / 40,
                          bottom - tall * 100 * dropped_share(loads, factor));
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"3\"/>\n", path,
                       color);
    const double y = 100 + 44 * static_cast<double>(i);
    const auto most = *std::max_element(loads.begin(), loads.end());
    svg += box(702, y - 10, 12, 12, color) + text(720, y, name) +
           text(720, y + 16, fmt::format("the busiest has {} rows", most), "start", svg::quiet, 11);
  }
  return svg + "</svg>\n";
}

Timed hot_expert_run(double hot) {
  constexpr double rate = 1e6, bandwidth = 1e6;
  MoeOptions options;
  options.router = {.width = hot_width, .experts = 4, .top_k = 1};
  options.experts = {.hidden = hot_hidden};
  return run_on(ideal(4, rate, bandwidth), 4, [&](Communicator& ep) {
    MoeMlp layer("mlp", options, {}, {.ep = ep});
    std::vector<ParameterPtr> own;
    layer.add_parameters(own);
    own[0]->value.zero();  // the router's: expert e likes token e
    for (int64_t e = 0; e < 4; ++e) own[0]->value.data<float>()[e * hot_width + e] = 1;
    Saved saved;
    layer.forward(directed_tokens(hot), saved);
  });
}

std::string expert_hot_svg() {
  const char* const title = "A hot expert makes three ranks wait";
  const double scale = 760 / hot_expert_run(0.5).seconds();
  std::string svg = svg::paper(900, 430, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg += text(20, 48,
              fmt::format("A forward pass on 4 ranks with one expert and {} tokens each, on the "
                          "virtual clock. A dashed frame: waiting.",
                          hot_tokens));
  svg += hot_panel(0, 76, "even: each expert gets a quarter of the tokens", scale);
  svg +=
      hot_panel(0.5, 246, "hot: half of the tokens go to expert 0, the others to all four", scale);
  for (int kind = 0; kind < 3; ++kind)
    svg += box(20 + 170 * kind, 402, 14, 12, timeline_color(kind), "none") +
           text(40 + 170 * kind, 412, hot_kinds[kind]);
  return svg + "</svg>\n";
}

}  // namespace yotta
