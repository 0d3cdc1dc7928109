// Pictures drawn from runs: the ring, the tree, and a step of DDP. What is drawn happened in the
// run, and the files are what is drawn.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <bit>
#include <set>

#include "course/shared/collective_picture.hpp"
#include "course/shared/ddp_picture.hpp"
#include "course/shared/hsdp_picture.hpp"
#include "runner/exercise.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"

using namespace yotta;

namespace {

using Messages = std::vector<CollectiveMessage>;

Messages of_round(const Messages& all, int round) {
  Messages found;
  for (const CollectiveMessage& message : all)
    if (message.round == round) found.push_back(message);
  return found;
}

int64_t count(const std::string& text, const std::string& word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE(
    "the ring's messages: 2(p-1) rounds, all ranks in each, sums that grow and then travel whole") {
  for (const int p : {2, 3, 4}) {
    CAPTURE(p);
    const Messages all = collective_messages(p, p, all_reduce_ring);
    CHECK(std::ssize(all) == 2 * (p - 1) * p);
    for (int round = 1; round <= 2 * (p - 1); ++round)
      for (const CollectiveMessage& message : of_round(all, round)) {
        CHECK(message.to == (message.from + 1) % p);
        CHECK(std::popcount(message.whose) == std::min(round, p));
        if (round == 1) CHECK(message.chunk == (message.from + p - 1) % p);
      }
  }
}

TEST_CASE("the tree's messages: lg p rounds up, lg p down") {
  const Messages all = collective_messages(8, 1, all_reduce_tree);
  CHECK(all.size() == 14);
  CHECK(of_round(all, 1) ==
        Messages{{1, 1, 0, 0, 0x02}, {1, 3, 2, 0, 0x08}, {1, 5, 4, 0, 0x20}, {1, 7, 6, 0, 0x80}});
  CHECK(of_round(all, 2) == Messages{{2, 2, 0, 0, 0x0c}, {2, 6, 4, 0, 0xc0}});
  CHECK(of_round(all, 3) == Messages{{3, 4, 0, 0, 0xf0}});
  CHECK(of_round(all, 4) == Messages{{4, 0, 4, 0, 0xff}});
  CHECK(of_round(all, 5) == Messages{{5, 0, 2, 0, 0xff}, {5, 4, 6, 0, 0xff}});
  CHECK(of_round(all, 6).size() == 4);
  CHECK(of_round(all, 7).empty());
}

TEST_CASE("the step of DDP: gradients travel behind backward, all but the last") {
  const Trace trace = ddp_picture_trace();
  REQUIRE(trace.ranks.size() == ddp_picture_ranks);
  for (const std::vector<TraceEvent>& events : trace.ranks) {
    double backward_ends = 0, gradients_begin = 1e300, gradients_end = 0, sent = 0;
    for (const TraceEvent& event : events) {
      if (event.name.starts_with("linear_backward")) backward_ends = event.end;
      if (event.name != "ddp.gradients" || event.kind != EventKind::recv) continue;
      gradients_begin = std::min(gradients_begin, event.begin);
      gradients_end = event.end;
      sent += 1;
    }
    CHECK(sent == ddp_picture_layers * 2 * (ddp_picture_ranks - 1));
    CHECK(gradients_begin < backward_ends);
    CHECK(gradients_end - backward_ends == doctest::Approx(1.5));
  }
  for (int sequence = 0; sequence < ddp_picture_sequences; ++sequence)
    CHECK(count(ddp_svg(), fmt::format(">seq {}<", sequence)) == 1);
  for (int layer = 0; layer < ddp_picture_layers; ++layer)
    CHECK(count(ddp_svg(), fmt::format(">all_reduce {}<", layer)) == ddp_picture_ranks);
}

TEST_CASE("the step of HSDP: shards cross behind backward, or set the pace") {
  for (const double between : {0.75, 3.0}) {
    double backward_ends = 0, first = 1e300, end = 0;
    int crossed = 0;
    const Trace trace = hsdp_picture_trace(between);
    for (const TraceEvent& event : trace.ranks[0]) {
      if (event.name.starts_with("linear_backward")) backward_ends = event.end;
      if (event.name != "hsdp.all_reduce" || event.kind != EventKind::recv) continue;
      first = std::min(first, event.begin);
      end = event.end;
      ++crossed;
    }
    CHECK(crossed == 2 * hsdp_picture_units);
    CHECK(first < backward_ends);
    const double after = between < 1 ? 0.75 + between : first + 4 * between - backward_ends;
    CHECK(end - backward_ends == doctest::Approx(after).epsilon(0.01));
  }
  for (int unit = 0; unit < hsdp_picture_units; ++unit) {
    CHECK(count(hsdp_svg(), fmt::format(">a{}<", unit)) == 2);
    CHECK(count(hsdp_svg(), fmt::format(">g{}<", unit)) == 4);
  }
  CHECK(count(hsdp_sweep_svg(), "#44bb99") == 2);  // the best bar, and the legend
}

TEST_CASE("the files are what is drawn, at most 900 wide, with letters of 10 or more") {
  struct Drawn {
    const char *file, *lesson;
    std::string svg;
  };
  for (const auto& [file, lesson, svg] : {Drawn{"ring.svg", "10", ring_svg()},
                                          {"tree.svg", "10", tree_svg()},
                                          {"ddp.svg", "13", ddp_svg()},
                                          {"hsdp.svg", "16", hsdp_svg()},
                                          {"hsdp_sweep.svg", "16", hsdp_sweep_svg()}}) {
    const bool same =
        runner::read_text(fmt::format("{}/course/pictures/{}", YOTTA_SOURCE_DIR, file)) == svg;
    CHECK_MESSAGE(same, fmt::format("course/pictures/{} is not what is drawn; ./yotta lesson {} -- "
                                    "--draw 1 writes it anew into this folder",
                                    file, lesson));
    CAPTURE(file);
    CHECK(count(svg, "width=\"900\"") == 1);
    CHECK(count(svg, "nan") == 0);
    CHECK(count(svg, "font-size=\"") == count(svg, "font-size=\"1"));  // two digits
  }
  CHECK(count(ring_svg(), "all_gather step 3") == 1);
  CHECK(count(tree_svg(), ">8</text>") == 15);  // both ends of 7 messages, and rank 0's last sum
}
