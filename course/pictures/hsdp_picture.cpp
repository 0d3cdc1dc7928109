#include "course/pictures/hsdp_picture.hpp"

#include <algorithm>
#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/hsdp.hpp"

namespace yotta {

namespace {

constexpr double left = 150, second = 33, height = 24;

enum Kind { forward_kind, backward_kind, gather_kind, reduce_kind, all_reduce_kind };
constexpr int kinds = 5;

struct Bar {
  Kind kind;
  int unit;
  double begin, end;
  int lane() const { return kind <= backward_kind ? 0 : kind <= reduce_kind ? 1 : 2; }
};

// Rank 0's events since the first gather, one bar for each piece of work. In a group of two and
// with two copies a collective's half is one message.
std::vector<Bar> bars_of(const Trace& trace) {
  std::vector<Bar> bars;
  int count[kinds] = {};
  const int last = hsdp_picture_units - 1;
  for (const TraceEvent& event : trace.ranks[0]) {
    const bool op = event.kind == EventKind::op, came = event.kind == EventKind::recv;
    const auto add = [&](Kind kind, int pieces) {
      const int index = count[kind]++ / pieces;
      const bool back = kind != forward_kind && !(kind == gather_kind && index <= last);
      const int unit = kind == gather_kind && back ? 2 * last + 1 - index
                       : back                      ? last - index
                                                   : index;
      if ((count[kind] - 1) % pieces == 0) bars.push_back({kind, unit, event.begin, event.end});
      const auto mine = std::find_if(bars.rbegin(), bars.rend(),
                                     [&](const Bar& bar) { return bar.kind == kind; });
      mine->end = event.end;
    };
    if (op && event.name == "linear") add(forward_kind, 1);
    if (op && event.name.starts_with("linear_backward")) add(backward_kind, 2);
    if (came && event.name == "fsdp.all_gather") add(gather_kind, 1);
    if (came && event.name == "fsdp.reduce") add(reduce_kind, 1);
    if (came && event.name == "hsdp.all_reduce") add(all_reduce_kind, 2);
  }
  return bars;
}

std::string step_svg(double between, double y, const std::string& title) {
  const std::vector<Bar> bars = bars_of(hsdp_picture_trace(between));
  double start = no_limit, end = 0;
  for (const Bar& bar : bars) start = std::min(start, bar.begin), end = std::max(end, bar.end);
  const char* lanes[] = {"compute", "inside the group", "between groups"};
  const char* names[] = {"F", "B", "g", "r", "a"};
  std::string svg = svg::text(20, y, title, "start", svg::ink, 13, true);
  for (int lane = 0; lane < 3; ++lane) svg += svg::text(20, y + 30 + 32 * lane, lanes[lane]);
  for (const Bar& bar : bars) {
    const double at = left + second * (bar.begin - start), width = second * (bar.end - bar.begin);
    const double top = y + 14 + 32 * bar.lane();
    svg += svg::box(at, top, width, height, timeline_color(bar.kind)) +
           svg::text(at + width / 2, top + 16, fmt::format("{}{}", names[bar.kind], bar.unit),
                     "middle");
  }
  const double axis = y + 112;
  svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#333\"/>\n", left, axis,
                     left + second * (end - start));
  for (int tick = 0; tick <= end - start; tick += 2)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#333\"/>\n", left + second * tick,
                       axis) +
           svg::text(left + second * tick, axis + 18, fmt::format("{} s", tick), "middle");
  return svg;
}

}  // namespace

Trace hsdp_picture_trace(double between, bool overlap) {
  const int64_t width = 64, rows = 64;
  const int p = hsdp_picture_group, R = hsdp_picture_replicas;
  const double forward_flops = 2.0 * width * width * rows, bytes = 4.0 * width * width;
  Cluster machine = ideal(p * R, forward_flops);
  machine.levels = {{"group", p, 0, 0.75 / (bytes * (p - 1) / p)},
                    {"cluster", p * R, 0, between / (bytes / p * 2 * (R - 1) / R)}};
  return run_on(machine, p * R,
                [&](Communicator& world) {
                  const DeviceScope meta(Device::meta);
                  const std::vector<LayerPtr> net = make_linear_net({hsdp_picture_units, width});
                  Hsdp hsdp(net, hsdp_ranks(world, p),
                            {.overlap = overlap, .replicas = {Algorithm::ring}});
                  Saved saved({0, 0, 0, 0, true});
                  const Tensor y = forward(hsdp.stack(), Tensor::full({rows, width}, 1), saved);
                  backward(hsdp.stack(), y, saved);
                  hsdp.finish();
                })
      .trace;
}

std::string hsdp_svg() {
  std::string svg = svg::paper(900, 372, "A step of HSDP on rank 0: two groups of two ranks");
  svg += svg::text(20, 28, "A step of HSDP on rank 0: two groups of two ranks, four units", "start",
                   svg::ink, 15, true);
  svg += step_svg(0.75, 58, "a = 0.75 s: only the last all_reduce shows");
  svg += step_svg(3, 204, "a = 3 s: the all_reduces follow each other, and set the pace");
  const char* words[] = {"F: forward", "B: backward", "g: all_gather of the weights",
                         "r: reduce_scatter", "a: all_reduce of a shard"};
  const double at[] = {20, 126, 246, 446, 586};
  for (int kind = 0; kind < kinds; ++kind)
    svg += svg::box(at[kind], 343, 16, 14, timeline_color(kind)) +
           svg::text(at[kind] + 22, 355, words[kind]);
  return svg + svg::text(790, 355, "number: unit") + "</svg>\n";
}

HsdpWork hsdp_sweep_work() {
  HsdpWork work;
  work.parameters = 8e9, work.units = 32, work.tokens = 2048;
  return work;
}

std::string hsdp_sweep_svg() {
  const std::vector<HsdpGroup> sweep = hsdp_sweep(
      cluster_named(fmt::format("h100x{}", hsdp_sweep_ranks)), hsdp_sweep_ranks, hsdp_sweep_work());
  const HsdpGroup best = best_group(sweep);
  constexpr double bottom = 316, step = 80, from = 110, ms = 0.66;  // pixels a millisecond
  std::string svg = svg::paper(900, 400, "Seconds of a step for every group size");
  svg += svg::text(20, 28,
                   "A step on 512 H100 for every group size p: 8e9 parameters, 2048 tokens "
                   "a rank",
                   "start", svg::ink, 15, true);
  svg += svg::text(20, 52, "step, ms");
  for (int tick = 0; tick <= 350; tick += 50)
    svg += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#ddd\"/>\n", from - 20,
                       bottom - ms * tick, from + 10 * step - 30) +
           svg::text(from - 28, bottom - ms * tick + 4, fmt::format("{}", tick), "end");
  double x = from;
  for (const HsdpGroup& group : sweep) {
    const double tall = ms * 1e3 * group.seconds;
    const char* fill = !group.fits ? "#dddddd" : group.p == best.p ? "#44bb99" : "#77aadd";
    svg +=
        svg::box(x, bottom - tall, 46, tall, fill) +
        svg::text(x + 23, bottom - tall - 6, fmt::format("{:.0f}", 1e3 * group.seconds), "middle") +
        svg::text(x + 23, bottom + 18, fmt::format("{}", group.p), "middle") +
        svg::text(x + 23, bottom + 36, fmt::format("{:.1f}", (group.held + group.borrowed) / 1e9),
                  "middle");
    x += step;
  }
  svg += svg::text(20, bottom + 18, "p") + svg::text(20, bottom + 36, "memory, GB");
  svg += svg::box(20, 374, 16, 14, "#dddddd") + svg::text(42, 386, "does not fit in 80 GB") +
         svg::box(220, 374, 16, 14, "#77aadd") + svg::text(242, 386, "fits") +
         svg::box(310, 374, 16, 14, "#44bb99") + svg::text(332, 386, "the fastest that fits") +
         svg::text(520, 386, "a node has 8 GPUs; p = 512 is FSDP over all ranks");
  return svg + "</svg>\n";
}

}  // namespace yotta
