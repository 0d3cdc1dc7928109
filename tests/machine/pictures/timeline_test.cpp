#include "yotta/machine/pictures/timeline.hpp"

#include <doctest/doctest.h>

#include "support/small_trace.hpp"

using namespace yotta;
using yotta_test::small_trace;

TEST_CASE("a row a lane: compute, communicators, peers; names by the time they take") {
  const Timeline timeline = make_timeline(small_trace());
  CHECK(timeline.seconds == 8);
  CHECK(timeline.names == std::vector<std::string>{"matmul", "halo", "adamw"});
  CHECK(timeline.shares == std::vector<double>{8.0 / 16, 2.0 / 16, 1.0 / 16});
  REQUIRE(timeline.rows.size() == 4);
  CHECK(timeline.rows[0].rank == 0);
  CHECK(timeline.rows[0].lane == compute_lane);
  CHECK(timeline.rows[1].name == "to rank 1");
  CHECK(timeline.rows[2].rank == 1);
  CHECK(timeline.rows[3].name == "from rank 0");
  CHECK(make_timeline(small_trace(), 1).ranks_left_out == 1);
  CHECK(make_timeline(small_trace(), 1).rows.size() == 2);
}

TEST_CASE("as text: a letter a name, capitals on the critical path, dots for waits") {
  // rank 0: matmul 4 s, sends 2 s, adamw 1 s.  rank 1: matmul 2 s, waits until 6 s, matmul 2 s.
  const std::string text = timeline_text(make_timeline(small_trace()), 16);
  CHECK(text.find("rank 0   compute          AAAAAAAAcc\n") != text.npos);
  CHECK(text.find("         to rank 1                BBBB\n") != text.npos);
  CHECK(text.find("rank 1   compute          aaaa········AAAA\n") != text.npos);
  CHECK(text.find("0            8 s\n") != text.npos);
  CHECK(text.find("A  matmul                        50.0%") != text.npos);
}

TEST_CASE("names that are asked for come first, in the order given, so letters keep a meaning") {
  const Timeline timeline = make_timeline(small_trace(), 8, {"adamw", "forward", "halo"});
  CHECK(timeline.names == std::vector<std::string>{"adamw", "forward", "halo", "matmul"});
  CHECK(timeline.shares == std::vector<double>{1.0 / 16, 0, 2.0 / 16, 8.0 / 16});
  CHECK(timeline_text(timeline, 16).find("rank 0   compute          DDDDDDDDaa\n") !=
        std::string::npos);
}

TEST_CASE("colours are for terminals only, and the same letter is there without") {
  const Timeline timeline = make_timeline(small_trace());
  CHECK(timeline_text(timeline, 16).find('\033') == std::string::npos);
  CHECK(timeline_text(timeline, 16, true).find("\033[30;48;2;119;170;221mA") != std::string::npos);
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

TEST_CASE("rows that would have the same name are numbered; a sign for each of 52 operations") {
  constexpr int first = -2, second = -3;
  Trace trace;
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("operation " + std::to_string(i));
  trace.ranks.emplace_back();
  for (int i = 0; i < 40; ++i)
    trace.ranks[0].push_back(
        {EventKind::op, 0, 1.0 * i, 1.0 * i + 1, names[static_cast<size_t>(i)], {}});
  for (const int lane : {first, second})
    trace.ranks[0].push_back({EventKind::op, lane, 0, 1, names[0], {}});
  trace.lanes = {{{first, {"dp"}}, {second, {"dp"}}}};
  const Timeline timeline = make_timeline(trace);
  REQUIRE(timeline.rows.size() == 3);
  CHECK(timeline.rows[1].name == "dp");
  CHECK(timeline.rows[2].name == "dp #2");
  const std::string text = timeline_text(timeline, 80);
  CHECK(text.find('#') == text.find("dp #2") + 3);
  CHECK(text.find('#', text.find("dp #2") + 4) == text.npos);
}

TEST_CASE("a wait for a rank's own message is not called a wait for itself") {
  Trace trace;
  trace.ranks.push_back(
      {{EventKind::send, 3, 0, 4, "halo", {}, 1, 64}, {EventKind::wait, 0, 0, 4, "wait", {0, 0}}});
  CHECK(waits_text(trace) == "    rank 0 waited 100.0% for its own send to end (halo)\n");
}

TEST_CASE("idle time is attributed: who was waited for, and what for") {
  CHECK(
      waits_text(small_trace()) ==
      "    rank 1 waited 25.0% for rank 0 to compute (matmul), 25.0% for rank 0 to send (halo)\n");
  CHECK(waits_text(small_trace(), 1).empty());  // rank 0 never waits
  CHECK(waits_text(Trace{}).empty());
}
