// The bodies of parallel/pipeline_picture.hpp.
#pragma once

#include "yotta/parallel/pipeline_picture.hpp"

#include <cmath>

namespace yotta {

YOTTA_INLINE std::string picture(const PipelineTimeline& timeline, double unit, bool colored) {
  const bool chunks = timeline.schedule.stages > timeline.schedule.ranks;
  constexpr int colors[] = {34, 33, 33, 32};  // of F, B, I, W
  const auto name = [&](PipelineAction action) {
    action.with_next = false;
    const std::string whole = str(action);
    return chunks ? whole : whole.substr(whole.find_first_of("FBIW"));
  };
  size_t width = 3;
  for (const std::vector<PipelineEvent>& events : timeline.by_rank)
    for (const PipelineEvent& each : events) width = std::max(width, name(each.action).size() + 1);
  const auto column = [&](double time) {
    return width * static_cast<size_t>(std::lround(time / unit));
  };
  std::string text;
  for (size_t rank = 0; rank < timeline.by_rank.size(); ++rank) {
    std::string line;
    size_t at = 0;  // characters that can be seen
    const auto idle = [&](size_t until) {
      for (; at < until; at += width) line += std::string(width - 1, '.') + " ";
    };
    for (const PipelineEvent& each : timeline.by_rank[rank]) {
      idle(column(each.begin));
      std::string box = name(each.action);
      const size_t wide = column(each.end) - column(each.begin);
      if (wide < 1) continue;
      box.resize(std::max<size_t>(1, wide - 1), '-');
      at += wide;
      const int color = colors[static_cast<size_t>(each.action.op)];
      line += colored ? fmt::format("\033[{}m{}\033[0m", color, box) : box;
      line += each.action.with_next ? '&' : ' ';
    }
    idle(column(timeline.length));
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("rank {:<3} {}\n", rank, line);
  }
  return text;
}

YOTTA_INLINE double idle_inside(const std::vector<PipelineEvent>& events) {
  double idle = 0;
  for (size_t i = 1; i < events.size(); ++i) idle += events[i].begin - events[i - 1].end;
  return idle;
}

YOTTA_INLINE std::string caption(const PipelineTimeline& timeline) {
  double most = 0, span = 0;
  for (const std::vector<PipelineEvent>& events : timeline.by_rank) {
    if (events.empty()) continue;
    most = std::max(most, idle_inside(events));
    span = std::max(span, events.back().end - events.front().begin);
  }
  return fmt::format(
      "{}, p = {}, m = {}: {:.1f}% busy by one clock; idle inside a rank's own span: at most {:g} "
      "of {:g}",
      timeline.schedule.name, timeline.schedule.ranks, timeline.schedule.microbatches,
      100 * timeline.busy(), most, span);
}

namespace detail {

// How an action is drawn: the op's colour, mixed with white for the later chunks of a rank.
inline std::string pipeline_fill(PipelineOp op, int chunk, int chunks) {
  constexpr int colors[4][3] = {
      {126, 178, 221}, {240, 150, 80}, {240, 228, 110}, {95, 190, 155}};  // F, B, I, W
  const double white = 0.75 * chunk / std::max(1, chunks - 1);
  const int(&c)[3] = colors[static_cast<int>(op)];
  const auto mixed = [&](int i) { return static_cast<int>(c[i] + white * (255 - c[i])); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2));
}

// Draws a timeline part by part; each part ends lower on the paper.
class PipelineDrawing {
 public:
  PipelineDrawing(const PipelineTimeline& timeline, double width)
      : timeline_(timeline),
        width_(width),
        scale_(timeline.length > 0 ? (width - left - right) / timeline.length : 0),
        chunks_(timeline.schedule.chunks()) {}

  std::string draw(const std::string& title) {
    text(10, 20, title, "start", 13);
    legend();
    text(width_ - 10, y_ + 12, "work + idle in its span", "end", 10);
    y_ += 18;
    for (size_t rank = 0; rank < timeline_.by_rank.size(); ++rank, y_ += row) draw_rank(rank);
    axis();
    return fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
        "font-family='sans-serif'>\n<title>{2}</title>\n<defs>\n"
        "<pattern id='inside' width='6' height='6' patternUnits='userSpaceOnUse'>"
        "<path d='M0,6 L6,0' stroke='#555'/></pattern>\n"
        "<pattern id='outside' width='9' height='9' patternUnits='userSpaceOnUse'>"
        "<path d='M0,0 L9,9' stroke='#bbb'/></pattern>\n"
        "</defs>\n<rect width='{0}' height='{1}' fill='#fff'/>\n{3}</svg>\n",
        width_, y_ + 42, title, svg_);
  }

 private:
  static constexpr double left = 56, right = 84, row = 30, box = 26;

  void text(double x, double y, const std::string& words, const char* anchor, int size) {
    svg_ += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}' font-size='{}'>{}</text>\n",
                        x, y, anchor, size, words);
  }
  void rectangle(double x, double wide, double high, const std::string& fill, double line = 0.6) {
    svg_ += fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.0f}' fill='{}' stroke='#444' "
        "stroke-width='{}'/>\n",
        x, y_, wide, high, fill, line);
  }
  bool copies() const { return timeline_.schedule.placement == Placement::both_ways; }
  int chunk_of(const PipelineAction& a) const {
    return timeline_.schedule.chunk_of(a.stage, a.microbatch);
  }

  template <class Is>
  bool has(Is is) const {
    const std::vector<PipelineActions>& all = timeline_.schedule.by_rank;
    return std::any_of(all.begin(), all.end(), [&](const PipelineActions& actions) {
      return std::any_of(actions.begin(), actions.end(), is);
    });
  }
  void legend() {
    constexpr const char* words[] = {"F forward", "B backward", "I input gradient",
                                     "W weight gradient"};
    y_ = 32;
    double x = 10;
    const auto item = [&](const std::string& fill, const std::string& name) {
      const double wide = 18 + 6.2 * static_cast<double>(name.size()) + 12;
      if (x + wide > width_) x = 10, y_ += 20;
      rectangle(x, 14, 12, fill);
      text(x + 18, y_ + 10, name, "start", 11);
      x += wide;
    };
    for (const PipelineOp op : {PipelineOp::F, PipelineOp::B, PipelineOp::I, PipelineOp::W})
      for (int chunk = 0; chunk < chunks_ && has([op](const auto& each) { return each.op == op; });
           ++chunk)
        item(pipeline_fill(op, chunk, chunks_),
             chunks_ == 1 ? words[static_cast<int>(op)]
                          : fmt::format("{}, {} {}", words[static_cast<int>(op)],
                                        copies() ? "copy" : "chunk", chunk));
    if (has([](const auto& each) { return each.with_next; }))
      item("#fff", "thick: F&amp;B together");
    item("url(#inside)", "bubble, inside the rank's own span");
    item("url(#outside)", "bubble outside it, before its first action or after its last");
    y_ += 18;
  }

  // Idle time, hatched; with a name where there is room for it.
  void idle(double begin, double end, bool inside) {
    const double x = left + scale_ * begin, wide = scale_ * (end - begin);
    if (wide < 0.05) return;
    rectangle(x, wide, box, inside ? "url(#inside)" : "url(#outside)");
    if (wide < 52) return;
    svg_ += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='42' height='14' fill='#fff'/>\n",
                        x + wide / 2 - 21, y_ + box / 2 - 7);
    text(x + wide / 2, y_ + box / 2 + 4, "bubble", "middle", 11);
  }
  void draw_rank(size_t rank) {
    const std::vector<PipelineEvent>& events = timeline_.by_rank[rank];
    text(left - 8, y_ + box / 2 + 4, fmt::format("rank {}", rank), "end", 11);
    double at = 0, work = 0;
    const PipelineEvent* pair = nullptr;  // the F that runs together with this action
    for (const PipelineEvent& each : events) {
      idle(at, each.begin, &each != &events.front());
      const double x = left + scale_ * each.begin, wide = scale_ * (each.end - each.begin);
      rectangle(x, wide, box, pipeline_fill(each.action.op, chunk_of(each.action), chunks_));
      const std::string number = fmt::format("{}", each.action.microbatch);
      const int size = wide < 16 ? 9 : 11;
      if (0.58 * size * static_cast<double>(number.size()) < wide)
        text(x + wide / 2, y_ + box / 2 + 4, number, "middle", size);
      if (pair != nullptr)
        rectangle(left + scale_ * pair->begin, scale_ * (each.end - pair->begin), box, "none", 2);
      pair = each.action.with_next ? &each : nullptr;
      at = each.end, work += each.end - each.begin;
    }
    idle(at, timeline_.length, false);
    text(width_ - 10, y_ + box / 2 + 4, fmt::format("{:g} + {:g}", work, idle_inside(events)),
         "end", 11);
  }
  void axis() {
    const double end = left + scale_ * timeline_.length;
    svg_ += fmt::format("<path d='M{0:.1f},{1:.1f} H{2:.1f}' stroke='#444'/>\n", left, y_ + 2, end);
    double step = 1;
    for (const double factor : {2.0, 2.5, 2.0}) step *= scale_ * step < 28 ? factor : 1;
    for (int i = 0; scale_ > 0 && i * step <= timeline_.length; ++i) {
      const double x = left + scale_ * i * step;
      svg_ += fmt::format("<path d='M{:.1f},{:.1f} v4' stroke='#444'/>\n", x, y_ + 2);
      text(x, y_ + 17, fmt::format("{:g}", i * step), "middle", 10);
    }
    text((left + end) / 2, y_ + 34,
         fmt::format("time; 1 is the forward of one microbatch in one {}",
                     chunks_ == 1 || copies() ? "stage" : "chunk"),
         "middle", 11);
  }

  const PipelineTimeline& timeline_;
  double width_, scale_, y_ = 0;
  int chunks_;
  std::string svg_;
};

}  // namespace detail

YOTTA_INLINE std::string svg(const PipelineTimeline& timeline, const std::string& title,
                             double width) {
  return detail::PipelineDrawing(timeline, width).draw(title);
}

}  // namespace yotta
