#include "course/pictures/ddp_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"

namespace yotta {

namespace {

constexpr double left = 168, second = 50, top = 92, row = 62, bar_height = 22;

double time_x(double seconds) { return left + second * seconds; }
double rank_y(int rank) { return top + row * rank; }

std::string text(double x, double y, const std::string& words, const char* anchor = "start",
                 int size = 12, bool bold = false) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#222\" "
      "font-size=\"{}\"{}>{}</text>\n",
      x, y, anchor, size, bold ? " font-weight=\"bold\"" : "", words);
}
std::string box(double x, double y, double width, double height, const char* fill) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
      "stroke=\"#333\" stroke-width=\"0.8\"/>\n",
      x, y, width, height, fill);
}

enum Kind { forward_kind, backward_kind, reduce_kind, update_kind };

// What is drawn as one bar: several events one after the other.
struct Bar {
  Kind kind;
  int layer;
  double begin, end;
};

std::string bar_svg(const Bar& bar, int rank) {
  const char* names[] = {"F", "B", "all_reduce ", ""};
  const double y = rank_y(rank) + (bar.kind == reduce_kind ? bar_height + 3 : 0);
  const double width = second * (bar.end - bar.begin);
  std::string svg = box(time_x(bar.begin), y, width, bar_height, timeline_color(bar.kind));
  if (bar.kind != update_kind)
    svg +=
        text(time_x(bar.begin) + width / 2, y + 15, fmt::format("{}{}", names[bar.kind], bar.layer),
             "middle", bar.kind == reduce_kind ? 11 : 12);
  return svg;
}

// A rank's bars: layers forward, layers backward (two ops each), one bucket per layer (2(p-1)
// messages each), one update.
std::vector<Bar> bars_of(const std::vector<TraceEvent>& events) {
  std::vector<Bar> bars;
  int count[4] = {};
  const int pieces[] = {1, 2, 2 * (ddp_picture_ranks - 1), ddp_picture_layers};
  for (const Kind kind : {forward_kind, backward_kind, reduce_kind, update_kind})
    for (const TraceEvent& event : events) {
      const bool op = event.kind == EventKind::op;
      const bool is_this = kind == forward_kind    ? op && event.name == "linear"
                           : kind == backward_kind ? op && event.name.starts_with("linear_backward")
                           : kind == update_kind
                               ? op && event.name == "sgd"
                               : event.kind == EventKind::recv && event.name == "ddp.gradients";
      if (!is_this) continue;
      const int index = count[kind]++ / pieces[kind];
      const int layer = kind == forward_kind ? index : ddp_picture_layers - 1 - index;
      if ((count[kind] - 1) % pieces[kind] == 0)
        bars.push_back({kind, layer, event.begin, event.end});
      bars.back().end = event.end;
    }
  return bars;
}

std::string axis(double seconds, double y) {
  std::string svg = fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#333\"/>\n", time_x(0),
                                y, time_x(seconds));
  for (int tick = 0; tick <= seconds; tick += 2)
    svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}v5\" stroke=\"#333\"/>\n", time_x(tick), y) +
           text(time_x(tick), y + 18, fmt::format("{} s", tick), "middle", 11);
  return svg;
}

std::string legend(double y) {
  const char* words[] = {"F: forward of a layer", "B: its backward", "all_reduce of its gradient",
                         "update of all weights"};
  const double at[] = {20, 212, 360, 580};
  std::string svg;
  for (const int kind : {0, 1, 2, 3})
    svg +=
        box(at[kind], y - 11, 16, 14, timeline_color(kind)) + text(at[kind] + 22, y, words[kind]);
  return svg;
}

}  // namespace

Trace ddp_picture_trace() {
  const int64_t width = 64, rows = 64;
  const double forward_flops = 2.0 * width * width * rows;
  const double bytes = 4.0 * width * width * 2 * (ddp_picture_ranks - 1) / ddp_picture_ranks;
  const Cluster machine = ideal(ddp_picture_ranks, forward_flops, bytes / 1.5);
  return run_on(machine, ddp_picture_ranks,
                [&](Communicator& world) {
                  const DeviceScope meta(Device::meta);
                  const std::vector<LayerPtr> net = make_linear_net({ddp_picture_layers, width});
                  Ddp ddp(parameters(net), world,
                          DdpOptions{4 * width * width, ReduceOp::sum, true, {Algorithm::ring}});
                  Sgd optimizer(parameters(net));
                  Saved saved;
                  backward(net, forward(net, Tensor::full({rows, width}, 1), saved), saved);
                  ddp.finish();
                  optimizer.step(0.1);
                })
      .trace;
}

std::string ddp_svg() {
  const Trace trace = ddp_picture_trace();
  double end = 0, start = 1e300;
  for (const std::vector<TraceEvent>& events : trace.ranks)
    for (const Bar& bar : bars_of(events)) {
      start = std::min(start, bar.begin);
      end = std::max(end, bar.end);
    }
  std::string svg = svg::head(900, 410, "A step of DDP on 4 ranks") + svg::sheet(900, 410);
  svg += text(20, 28, "A step of DDP on 4 ranks: different sequences, the same weights", "start",
              15, true);
  svg +=
      text(20, 48,
           "4 layers, a bucket each. The gradient of layer 3 travels while layer 2 runs backward. "
           "Only the last all_reduce is waited for.");
  for (int rank = 0; rank < ddp_picture_ranks; ++rank) {
    const BatchShard mine = batch_shard(ddp_picture_sequences, ddp_picture_ranks, rank);
    svg += text(20, rank_y(rank) + 15, fmt::format("rank {}", rank), "start", 12, true);
    for (int64_t sequence = mine.begin; sequence < mine.end; ++sequence) {
      const double x = 70 + 46 * static_cast<double>(sequence - mine.begin);
      svg += box(x, rank_y(rank), 44, bar_height, timeline_color(4 + rank)) +
             text(x + 22, rank_y(rank) + 15, fmt::format("seq {}", sequence), "middle", 11);
    }
    double computed = 0;
    for (Bar bar : bars_of(trace.ranks[static_cast<size_t>(rank)])) {
      bar.begin -= start;
      bar.end -= start;
      svg += bar_svg(bar, rank);
      if (bar.kind == backward_kind) computed = std::max(computed, bar.end);
      if (bar.kind == update_kind)
        svg +=
            text((time_x(computed) + time_x(bar.begin)) / 2, rank_y(rank) + 15, "waits", "middle");
    }
  }
  return svg + axis(end - start, rank_y(ddp_picture_ranks) + 4) + legend(388) + "</svg>\n";
}

}  // namespace yotta
