#include "course/pictures/failures_picture.hpp"

#include <cmath>

#include "course/pictures/svg.hpp"
#include "yotta/resilience/failure_arithmetic.hpp"
#include "yotta/resilience/faults/watched_run.hpp"
#include "yotta/resilience/regroup.hpp"

namespace yotta {

namespace {

constexpr double left = 80, right = 660, top = 60, bottom = 340, shortest = 10, longest = 10000;

double x_of(double interval) {
  return left + (right - left) * std::log(interval / shortest) / std::log(longest / shortest);
}
double y_of(double goodput) { return bottom - (bottom - top) * goodput; }

std::string axes() {
  std::string svg = svg::text(20, top - 12, "goodput");
  for (int tick = 0; tick <= 10; tick += 2)
    svg += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#ddd\"/>\n", left, y_of(0.1 * tick),
                       right) +
           svg::text(left - 8, y_of(0.1 * tick) + 4, fmt::format("{}%", 10 * tick), "end");
  for (const int tick : {10, 30, 100, 300, 1000, 3000, 10000})
    svg += fmt::format("<path d=\"M{:.1f} {}v5\" stroke=\"#333\"/>\n", x_of(tick), bottom) +
           svg::text(x_of(tick), bottom + 20, fmt::format("{} s", tick), "middle");
  return svg + svg::text((left + right) / 2, bottom + 40, "work between two snapshots", "middle");
}

SavingRun run_of(double interval) { return {interval, picture_save, picture_down}; }

std::string expected_curve(double mean, const char* color) {
  std::string path;
  for (int i = 0; i <= 100; ++i) {
    const double interval = shortest * std::pow(longest / shortest, i / 100.0);
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x_of(interval),
                        y_of(expected_goodput(run_of(interval), mean)));
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                     color);
}

std::string simulated_dots(double mean, const char* color) {
  std::string dots;
  for (int i = 5; i <= 100; i += 10) {
    const double interval = shortest * std::pow(longest / shortest, i / 100.0);
    const SpentTime spent =
        simulate_run(run_of(interval), std::vector<FailureSource>{{"node", mean}}, 2000 * mean, 1);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#fff\" stroke=\"{}\"/>\n",
                    x_of(interval), y_of(spent.goodput()), color);
  }
  return dots;
}

std::string best_mark(double mean, double interval, const char* word, double dx,
                      const char* anchor) {
  const double x = x_of(interval), y = y_of(expected_goodput(run_of(interval), mean));
  return fmt::format("<path d=\"M{:.1f} {:.1f}v-14\" stroke=\"#333\" stroke-width=\"2\"/>\n", x,
                     y) +
         svg::text(x + dx, y - 18, word, anchor);
}

std::string curve(double nodes, const char* color) {
  const double mean = seconds_between_failures(nodes);
  const Intervals best = best_intervals(picture_save, mean);
  return expected_curve(mean, color) + simulated_dots(mean, color) +
         best_mark(mean, best.young, "Young", 2, "start") +
         best_mark(mean, best.daly, "Daly", -2, "end");
}

}  // namespace

std::string intervals_svg() {
  const std::string title = "Goodput for every interval: a snapshot takes 10 s, a restart 60 s";
  std::string svg =
      svg::paper(900, 400, title) + svg::text(20, 28, title, "start", svg::ink, 15, true) + axes();
  const std::pair<double, const char*> machines[] = {
      {1000, "#4477aa"}, {10000, "#228833"}, {100000, "#aa3377"}};
  double y = 110;
  for (const auto& [nodes, color] : machines) {
    svg += curve(nodes, color);
    svg += fmt::format("<path d=\"M690 {:.0f}h24\" stroke=\"{}\" stroke-width=\"3\"/>\n", y - 4,
                       color);
    svg += svg::text(722, y, fmt::format("{:.0f} nodes:", nodes));
    svg += svg::text(722, y + 17,
                     fmt::format("a failure every {:.3g} {}",
                                 seconds_between_failures(nodes) / (nodes > 50000 ? 1 : 60),
                                 nodes > 50000 ? "s" : "min"));
    y += 52;
  }
  svg += fmt::format("<circle cx=\"702\" cy=\"{:.0f}\" r=\"4\" fill=\"#fff\" stroke=\"#333\"/>\n",
                     y - 4);
  return svg + svg::text(722, y, "simulated") + "</svg>\n";
}

namespace {

constexpr double flip_column = 170, first_flip_column = 350;

std::string flip_heads() {
  std::string svg =
      svg::text(20, 60, "where, in the order of a step", "start", svg::ink, 12, true) +
      svg::text(240, 60, "bit", "start", svg::ink, 12, true);
  const char* heads[] = {"checksum over replicas", "gradient norm", "replay on another rank"};
  for (int d = 0; d < detectors; ++d)
    svg += svg::text(first_flip_column + flip_column * d + flip_column / 2, 60, heads[d], "middle",
                     svg::ink, 12, true);
  return svg;
}

std::string flip_row(const Flip& flip, double y) {
  const WatchedRun run = train_watched({}, flip);
  std::string svg =
      svg::text(20, y + 15, name(flip.place)) + svg::text(240, y + 15, name_of_bit(flip.bit));
  for (int d = 0; d < detectors; ++d) {
    const std::string words = in_words(run, static_cast<Detector>(d), flip);
    const char* fill = words == "missed"        ? "#eeeeee"
                       : words == "in the step" ? "#44bb99"
                                                : "#eedd88";
    const double x = first_flip_column + flip_column * d;
    svg += svg::box(x, y, flip_column - 4, 19, fill, "#bbb") +
           svg::text(x + flip_column / 2 - 2, y + 14, words, "middle");
  }
  return svg;
}

}  // namespace

std::string flips_svg() {
  const std::string title = "One flipped bit in training: which detector finds it, and when";
  std::string svg = svg::paper(900, 470, title) +
                    svg::text(20, 28, title, "start", svg::ink, 15, true) + flip_heads();
  double y = 78;
  for (int place = 0; place < flip_places; ++place, y += 3)
    for (const int bit : flip_bits) {
      svg += flip_row({static_cast<FlipPlace>(place), bit, 1, 4}, y);
      y += 22;
    }
  return svg +
         svg::text(20, y + 20,
                   "3 replicas; a bit of the largest number of a tensor of rank 1, once.") +
         "</svg>\n";
}

// ---- pipelines that reroute ----

namespace {

constexpr double reroute_left = 150, reroute_top = 84, reroute_row = 30;

double reroute_y(const StageOfReplica& of) {
  return reroute_top + reroute_row * (of.replica * rerouted_job.p + of.stage) + 8 * of.replica;
}

// What a rank does, in the colours of the replicas whose microbatches these are.
std::string rank_boxes(const StageOfReplica& self, const std::vector<PipelineEvent>& events,
                       double unit) {
  std::string svg;
  const double y = reroute_y(self);
  for (const PipelineEvent& each : events) {
    const int64_t owner = each.action.microbatch / rerouted_job.m;
    const double x = reroute_left + unit * each.begin, wide = unit * (each.end - each.begin);
    svg += svg::box(x, y, wide, reroute_row - 5, svg::rank_colors[owner], "#333",
                    owner == self.replica ? "" : " stroke-width=\"3\"") +
           svg::text(x + wide / 2, y + 17,
                     fmt::format("{}{}", each.action.op == PipelineOp::F ? "F" : "B",
                                 each.action.microbatch % rerouted_job.m),
                     "middle");
  }
  return svg;
}

std::string reroute_legend() {
  std::string svg;
  for (int replica = 0; replica < rerouted_job.replicas; ++replica)
    svg += svg::box(20 + 190 * replica, 44, 14, 14, svg::rank_colors[replica]) +
           svg::text(40 + 190 * replica, 56, fmt::format("microbatch of replica {}", replica));
  return svg + svg::box(590, 44, 14, 14, "#fff", "#333", " stroke-width=\"3\"") +
         svg::text(612, 56, "thick: taken over for a dead peer");
}

std::string reroute_axis(double length, double unit) {
  const double y = reroute_y({rerouted_job.replicas - 1, rerouted_job.p - 1}) + reroute_row + 4;
  std::string svg = fmt::format("<path d=\"M{} {:.1f}h{:.1f}\" stroke=\"#333\"/>\n", reroute_left,
                                y, unit * length);
  for (int tick = 0; tick <= length; tick += 3)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#333\"/>\n",
                       reroute_left + unit * tick, y) +
           svg::text(reroute_left + unit * tick, y + 18, std::to_string(tick), "middle");
  return svg + svg::text(reroute_left + unit * length / 2, y + 36,
                         "time; 1 is the forward of one microbatch in one stage", "middle");
}

}  // namespace

std::string reroute_svg() {
  const std::string title =
      "3 replicas of 3 stages, 4 microbatches each: the rank of replica 1, stage 1 is dead";
  const ReroutedPipeline made = reroute(rerouted_job, rerouted_dead);
  const PipelineTimeline timeline = simulate(made.schedule);
  const double unit = 720 / timeline.length;
  std::string svg = svg::paper(900, 440, title) +
                    svg::text(20, 28, title, "start", svg::ink, 15, true) + reroute_legend();
  for (int place = 0; place < rerouted_job.replicas * rerouted_job.p; ++place) {
    const StageOfReplica of{place / rerouted_job.p, place % rerouted_job.p};
    svg += svg::text(reroute_left - 8, reroute_y(of) + 17,
                     fmt::format("replica {}, stage {}", of.replica, of.stage), "end");
  }
  for (const StageOfReplica& each : rerouted_dead)
    svg += svg::text(reroute_left + 8, reroute_y(each) + 17, "dead", "start", svg::lit, 12, true);
  for (size_t rank = 0; rank < made.ranks.size(); ++rank)
    svg += rank_boxes(made.ranks[rank], timeline.by_rank[rank], unit);
  return svg + reroute_axis(timeline.length, unit) + "</svg>\n";
}

}  // namespace yotta
