#include "yotta/machine/pictures/timeline.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "support/small_trace.hpp"

using namespace yotta;
using yotta_test::small_trace, yotta_test::step_trace;

namespace {
std::vector<std::string> names(const Timeline& timeline) {
  std::vector<std::string> all;
  for (const TimelineKind& kind : timeline.kinds) all.push_back(kind.name);
  return all;
}
std::vector<double> shares(const Timeline& timeline) {
  std::vector<double> all;
  for (const TimelineKind& kind : timeline.kinds) all.push_back(kind.share);
  return all;
}
std::vector<TimelineLook> all_looks() {
  std::vector<TimelineLook> all(phase_looks.begin(), phase_looks.end());
  all.insert(all.end(), communication_looks.begin(), communication_looks.end());
  all.insert(all.end(), other_looks.begin(), other_looks.end());
  return all;
}
// Of two colours, as WCAG 2 computes it.
double luminance(const char* color) {
  double sum = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (int i = 0; i < 3; ++i) {
    const double c = std::stoi(std::string(color + 1 + 2 * i, 2), nullptr, 16) / 255.0;
    sum += weights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}
double contrast(const char* light, const char* dark) {
  return (luminance(light) + 0.05) / (luminance(dark) + 0.05);
}
}  // namespace

TEST_CASE("a row a lane: compute, communicators, peers; what has no phase by the time it takes") {
  const Timeline timeline = make_timeline(small_trace());
  CHECK(timeline.seconds == 8);
  CHECK(names(timeline) == std::vector<std::string>{"matmul", "halo", "adamw"});
  CHECK(shares(timeline) == std::vector<double>{8.0 / 16, 2.0 / 16, 1.0 / 16});
  REQUIRE(timeline.rows.size() == 4);
  CHECK(timeline.rows[0].rank == 0);
  CHECK(timeline.rows[0].lane == compute_lane);
  CHECK(timeline.rows[1].name == "to rank 1");
  CHECK(timeline.rows[2].rank == 1);
  CHECK(timeline.rows[3].name == "from rank 0");
  CHECK(make_timeline(small_trace(), 1).ranks_left_out == 1);
  CHECK(make_timeline(small_trace(), 1).rows.size() == 2);
}

TEST_CASE("an op is drawn by its phase, a message by its collective, whatever their names") {
  const Timeline timeline = make_timeline(step_trace());
  CHECK(names(timeline) == std::vector<std::string>{"forward", "backward_input (dgrad)",
                                                    "backward_weight (wgrad)", "recompute",
                                                    "optimizer", "all_reduce", "all_gather"});
  CHECK(timeline.kinds[0].parts ==
        std::vector<std::pair<std::string, double>>{{"linear", 4.0 / 8}});
  CHECK(names(make_timeline(step_trace(), 8, TimelineBy::name)) ==
        std::vector<std::string>{"linear", "adamw", "ddp.gradients", "linear_backward_input",
                                 "linear_backward_weight", "weights"});
}

TEST_CASE("no two kinds look alike, with colour or without, and no two have the same sign") {
  const std::vector<TimelineLook> all = all_looks();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      CAPTURE(all[i].sign);
      CHECK(all[i].sign != all[j].sign);
      CHECK_FALSE((all[i].color == all[j].color && all[i].pattern == all[j].pattern));
    }
  const auto patterns = [](const auto& looks) {
    std::set<Pattern> found;
    for (const TimelineLook look : looks) found.insert(look.pattern);
    return found.size();
  };
  CHECK(patterns(phase_looks) == phase_looks.size());
  CHECK(patterns(communication_looks) == communication_looks.size());
}

TEST_CASE("letters and the lines of patterns can be read on every colour") {
  for (const char* color : timeline_colors) CHECK(contrast(color, timeline_ink) >= 4.5);
}

TEST_CASE("as text: a sign a kind, capitals on the critical path, dots for waits") {
  // rank 0: matmul 4 s, sends 2 s, adamw 1 s.  rank 1: matmul 2 s, waits until 6 s, matmul 2 s.
  const std::string text = timeline_text(make_timeline(small_trace()), 16);
  CHECK(text.find("rank 0   compute          EEEEEEEEjj\n") != text.npos);
  CHECK(text.find("         to rank 1                HHHH\n") != text.npos);
  CHECK(text.find("rank 1   compute          eeee········EEEE\n") != text.npos);
  CHECK(text.find("0            8 s\n") != text.npos);
  CHECK(text.find("E  matmul                        50.0%\n") != text.npos);
}

TEST_CASE("in text a step is a line of phases, and its legend says which operations they are") {
  const std::string text = timeline_text(make_timeline(step_trace()), 16);
  CHECK(text.find("compute           ffffrriiwwooFFFF\n") != text.npos);
  CHECK(text.find("dp: ddp.gradients         aa\n") != text.npos);
  CHECK(text.find("dp: weights                 gg\n") != text.npos);
  CHECK(text.find("F  forward                       50.0%  linear\n") != text.npos);
}

TEST_CASE("a cell of text shows what takes most of its time, all bars of a kind together") {
  Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 3, "short", {}},
                         {EventKind::op, 0, 3, 7, "long", {}},
                         {EventKind::op, 0, 7, 10, "short", {}}});
  const Timeline timeline = make_timeline(trace);
  CHECK(timeline_text(timeline, 1).find("compute          E\n") != std::string::npos);
  CHECK(timeline.kinds[0].name == "short");
}

TEST_CASE("a message is shown before a wait beside it") {
  Trace trace;
  trace.ranks.push_back({{EventKind::wait, -1, 0, 4, "wait", {}},
                         {EventKind::send, -1, 0, 4, "halo", {}, 1, 64},
                         {EventKind::wait, -1, 4, 8, "wait", {}}});
  CHECK(timeline_text(make_timeline(trace), 8).find("world            eeee····\n") !=
        std::string::npos);
}

TEST_CASE("steps and passes of a rank, from the ops that have them") {
  using Marks = std::vector<TimelineMark>;
  CHECK(step_marks(step_trace(), 0) == Marks{{0, 6, "step 0", "0"}, {6, 8, "step 1", "1"}});
  CHECK(pass_marks(step_trace(), 0) == Marks{{0, 2, "forward", "F"},
                                             {2, 5, "backward", "B"},
                                             {5, 6, "optimizer", "O"},
                                             {6, 8, "forward", "F"}});
  CHECK(step_marks(small_trace(), 0).empty());
  CHECK(pass_marks(small_trace(), 0).empty());
}

TEST_CASE("two steps without anything between them are two marks, and so are their passes") {
  Trace trace = step_trace();
  std::erase_if(trace.ranks[0], [](const TraceEvent& event) {
    return event.phase != Phase::forward;  // of step 0, and of step 1
  });
  CHECK(pass_marks(trace, 0).size() == 2);
}

TEST_CASE("marks stand below the axis, as long as there is room") {
  const Timeline timeline = make_timeline(step_trace());
  const std::string wide = timeline_text(timeline, 80), narrow = timeline_text(timeline, 16);
  CHECK(wide.find("steps of rank 0   |step 0 ") != wide.npos);
  CHECK(wide.find("|backward                     |optimizer|forward\n") != wide.npos);
  CHECK(narrow.find("passes of rank 0  |F  |B    |O|F\n") != narrow.npos);
  const std::string none = timeline_text(make_timeline(small_trace()), 80);
  CHECK(none.find("of rank 0") == none.npos);
}

TEST_CASE("colours are for terminals only, and the same sign is there without") {
  const Timeline timeline = make_timeline(small_trace());
  CHECK(timeline_text(timeline, 16).find('\033') == std::string::npos);
  CHECK(timeline_text(timeline, 16, true).find("\033[30;48;2;153;221;255mE") != std::string::npos);
}

TEST_CASE("times are written in a unit that fits") {
  CHECK(time_text(0) == "0 s");
  CHECK(time_text(1.5e-9) == "1.5 ns");
  CHECK(time_text(2.5e-6) == "2.5 us");
  CHECK(time_text(0.00123) == "1.23 ms");
  CHECK(time_text(12.5) == "12.5 s");
}

TEST_CASE("an empty trace is an empty timeline") {
  const Timeline timeline = make_timeline(Trace{});
  CHECK(timeline.rows.empty());
  CHECK(timeline_text(timeline).find("critical") != std::string::npos);
}

TEST_CASE("of many operations without a phase the shortest share one kind") {
  Trace trace;
  std::vector<std::string> all;
  for (int i = 0; i < 40; ++i) all.push_back("operation " + std::to_string(i));
  trace.ranks.emplace_back();
  for (int i = 0; i < 40; ++i)
    trace.ranks[0].push_back(
        {EventKind::op, 0, 100.0 * i, 100.0 * i + 90 - i, all[static_cast<size_t>(i)], {}});
  const Timeline timeline = make_timeline(trace);
  REQUIRE(timeline.kinds.size() == other_looks.size());
  CHECK(timeline.kinds[7].name == "operation 7");
  CHECK(timeline.kinds[8].name == "other operations");
  CHECK(timeline.kinds[8].parts.size() == 32);
  CHECK(timeline_text(timeline).find("operation 8 2.1, operation 9 2.1, 30 more") !=
        std::string::npos);
}

TEST_CASE("what a rank waits for of its own is a message, never itself") {
  const auto waits = [](EventKind kind) {
    Trace trace;
    trace.ranks.push_back(
        {{kind, -1, 0, 4, "halo", {}, 1, 64}, {EventKind::wait, 0, 0, 4, "wait", {0, 0}}});
    return waits_text(trace);
  };
  CHECK(waits(EventKind::send) ==
        "    rank 0 waited 100.0% for its own message to arrive (halo)\n");
  CHECK(waits(EventKind::recv) ==
        "    rank 0 waited 100.0% for messages that queued at its port (halo)\n");
  CHECK(waits(EventKind::reduce) == "    rank 0 waited 100.0% for its own sums (halo)\n");
}

TEST_CASE("idle time is attributed: who was waited for, and what for") {
  CHECK(
      waits_text(small_trace()) ==
      "    rank 1 waited 25.0% for rank 0 to compute (matmul), 25.0% for rank 0 to send (halo)\n");
  CHECK(waits_text(small_trace(), 1).empty());  // rank 0 never waits
  CHECK(waits_text(Trace{}).empty());
}
