#include "course/pictures/two_nodes_picture.hpp"

#include <algorithm>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_on.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::ink;
using svg::text;

constexpr int node = 8;
constexpr double left = 90, per_ms = 106, top = 78, block = 78, bar = 20;
constexpr const char *nvlink_fill = "#77aadd", *card_fill = "#ee8866";

// Joins what overlaps, or has a gap of less than a microsecond.
std::vector<BusyTime> joined(std::vector<BusyTime> times) {
  std::sort(times.begin(), times.end(),
            [](const BusyTime& a, const BusyTime& b) { return a.begin < b.begin; });
  std::vector<BusyTime> all;
  for (const BusyTime& each : times)
    if (all.empty() || each.begin > all.back().end + 1e-6)
      all.push_back(each);
    else
      all.back().end = std::max(all.back().end, each.end);
  return all;
}

LinksInTime links_of(Algorithm algorithm) {
  const Timed run = run_on(cluster_named("h100x16"), 2 * node, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor data = Tensor::empty({1 << 30}, DType::u8);
    world.all_reduce(data, ReduceOp::sum, {algorithm});
  });
  LinksInTime links{algorithm, run.seconds(), {}, {}};
  for (const TraceEvent& event : run.trace.ranks[0]) {
    if (event.kind != EventKind::send || event.bytes == 0) continue;
    (event.peer < node ? links.nvlink : links.card).push_back({event.begin, event.end});
  }
  links.nvlink = joined(links.nvlink);
  links.card = joined(links.card);
  return links;
}

double time_x(double seconds) { return left + 1e3 * per_ms * seconds; }

std::string row(double y, const char* name, const std::vector<BusyTime>& times, double seconds,
                const char* fill) {
  std::string svg =
      text(20, y + 15, name) + box(left, y, time_x(seconds) - left, bar, "#f4f4f4", "#bbb");
  for (const BusyTime& each : times)
    svg += box(time_x(each.begin), y, time_x(each.end) - time_x(each.begin), bar, fill, "none");
  return svg + text(time_x(seconds) + 8, y + 15,
                    fmt::format("{:.0f}%", 100 * sum_of(times) / seconds), "start", ink, 11);
}

}  // namespace

double sum_of(const std::vector<BusyTime>& times) {
  double sum = 0;
  for (const BusyTime& each : times) sum += each.end - each.begin;
  return sum;
}

double both_busy(const LinksInTime& links) {
  double sum = 0;
  for (const BusyTime& a : links.nvlink)
    for (const BusyTime& b : links.card)
      sum += std::max(0.0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
  return sum;
}

std::vector<LinksInTime> two_nodes_in_time() {
  return {links_of(Algorithm::multi_rail), links_of(Algorithm::hierarchical),
          links_of(Algorithm::pipelined)};
}

std::string two_nodes_svg() {
  const char* const title = "Which links are busy: all_reduce of 1 GiB on 16 H100 in two nodes";
  std::string svg = svg::paper(900, 356, title);
  svg += text(20, 28, title, "start", ink, 15, true) +
         text(20, 48,
              "What GPU 0 sends into its node (NVLink) and out of it (its network card). Right of "
              "a row: the share of the time.");
  double y = top;
  for (const LinksInTime& links : two_nodes_in_time()) {
    svg += text(20, y, fmt::format("{}: {:.2f} ms", name(links.algorithm), 1e3 * links.seconds),
                "start", ink, 13, true) +
           row(y + 8, "NVLink", links.nvlink, links.seconds, nvlink_fill) +
           row(y + 32, "card", links.card, links.seconds, card_fill);
    y += block;
  }
  svg += fmt::format("<path d=\"M{:.0f} {:.0f}H{:.0f}\" stroke=\"#555\"/>\n", left, y - 10,
                     time_x(7e-3));
  for (int ms = 0; ms <= 7; ++ms)
    svg +=
        fmt::format("<path d=\"M{:.0f} {:.0f}v5\" stroke=\"#555\"/>\n", time_x(1e-3 * ms), y - 10) +
        text(time_x(1e-3 * ms), y + 8, fmt::format("{} ms", ms), "middle", ink, 11);
  return svg + box(20, 332, 12, 12, nvlink_fill) + text(38, 342, "NVLink is busy") +
         box(160, 332, 12, 12, card_fill) + text(178, 342, "the card is busy") +
         box(310, 332, 12, 12, "#f4f4f4", "#bbb") + text(328, 342, "the link waits") + "</svg>\n";
}

}  // namespace yotta
