#include "yotta/parallel/pipeline_picture.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/message_of.hpp"
#include "support/project_file.hpp"
#include "yotta/parallel/dual_pipe.hpp"
#include "yotta/parallel/zero_bubble.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

int64_t count(const std::string& text, const std::string& word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// The files of course/pictures/ and what they show.
std::vector<std::pair<std::string, PipelineSchedule>> drawings() {
  return {{"pipeline_gpipe.svg", make_schedule(PipelineKind::gpipe, 4, 8)},
          {"pipeline_1f1b.svg", make_schedule(PipelineKind::one_f_one_b, 4, 8)},
          {"pipeline_interleaved.svg", make_schedule(PipelineKind::interleaved, 4, 8, 2)},
          {"zero_bubble_h1.svg", zero_bubble_schedule(ZeroBubble::H1, 4, 8)},
          {"zero_bubble_h2.svg", zero_bubble_schedule(ZeroBubble::H2, 4, 8)},
          {"zero_bubble_v.svg", zb_v_schedule(4, 8)},
          {"dual_pipe.svg", dual_pipe_schedule(4, 8)}};
}

}  // namespace

TEST_CASE("the picture in the terminal: a line a rank, a column a unit") {
  CHECK(picture(simulate(make_schedule(PipelineKind::gpipe, 2, 2))) ==
        "rank 0   F0 F1 .. .. .. B0--- B1---\n"
        "rank 1   .. F0 F1 B0--- B1--- .. ..\n");
  CHECK(picture(simulate(make_schedule(PipelineKind::one_f_one_b, 3, 3))) ==
        "rank 0   F0 F1 F2 .. .. .. .. B0--- .. B1--- .. B2---\n"
        "rank 1   .. F0 F1 .. .. B0--- F2 B1--- .. B2--- .. ..\n"
        "rank 2   .. .. F0 B0--- F1 B1--- F2 B2--- .. .. .. ..\n");
  CHECK(picture(simulate(make_schedule(PipelineKind::interleaved, 2, 2, 2))) ==
        "rank 0   0F0 0F1 2F0 2F1 ... ... 2B0---- ... 2B1---- 0B0---- 0B1----\n"
        "rank 1   ... 1F0 1F1 3F0 3B0---- 3F1 3B1---- 1B0---- 1B1---- ... ...\n");
  const std::string eleven = picture(simulate(make_schedule(PipelineKind::gpipe, 2, 11)));
  CHECK(eleven.starts_with("rank 0   F0- F1- F2- F3- F4- F5- F6- F7- F8- F9- F10 ... "));
  CHECK(eleven.ends_with("B9----- B10---- ... ...\n"));
  const PipelineTimeline slow = simulate(make_schedule(PipelineKind::gpipe, 1, 1), {10, 5, 5, 0});
  CHECK(picture(slow, 10) == "rank 0   F0 B0\n");
  CHECK(picture(slow, 5) == "rank 0   F0--- B0---\n");
}

TEST_CASE("the pictures at the top of pipeline_schedule.hpp are these") {
  const std::string header = text_of("include/yotta/parallel/pipeline_schedule.hpp");
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b}) {
    std::istringstream lines(picture(simulate(make_schedule(kind, 4, 4))));
    for (std::string line; std::getline(lines, line);) CHECK(contains(header, " " + line + "\n"));
  }
}

TEST_CASE("colours tell F, B, I and W apart, and are left out where nobody can see them") {
  const PipelineTimeline timeline = simulate(make_schedule(PipelineKind::gpipe, 2, 3));
  const std::string plain = picture(timeline), colored = picture(timeline, 1, true);
  CHECK_FALSE(contains(plain, "\033"));
  CHECK(count(colored, "\033[34mF") == 6);
  CHECK(count(colored, "\033[33mB") == 6);
  CHECK(count(colored, "\033[0m") == 12);
  const std::string halves = picture(simulate(zero_bubble_schedule(ZeroBubble::H1, 2, 3)), 1, true);
  CHECK(count(halves, "\033[33mI") == 6);
  CHECK(count(halves, "\033[32mW") == 6);
}

TEST_CASE("the course's drawings are these: ./yotta lesson 18 and 19 -- --draw 1 make them again") {
  for (const auto& [file, schedule] : drawings()) {
    CAPTURE(file);
    const PipelineTimeline timeline = simulate(schedule);
    CHECK(text_of("course/pictures/" + file) == svg(timeline, caption(timeline)));
  }
}

TEST_CASE("the lessons show each drawing with its caption, which says what is drawn") {
  for (const auto& [file, schedule] : drawings()) {
    CAPTURE(file);
    const std::string wanted = caption(simulate(schedule));
    const std::string shown = fmt::format("![{}](../../course/pictures/{})", wanted, file);
    const std::string lesson =
        file.starts_with("pipeline") ? "lessons/18_pipeline" : "lessons/19_zero_bubble";
    CHECK_MESSAGE(contains(text_of(lesson + "/README.md"), shown), shown);
    CHECK(contains(text_of("course/pictures/" + file), ">" + wanted + "</text>"));
  }
}

TEST_CASE("a caption has both measures: ZB-H2 is idle by one clock, and not by a rank's own span") {
  const auto of = [](const PipelineSchedule& schedule) { return caption(simulate(schedule)); };
  CHECK(of(make_schedule(PipelineKind::one_f_one_b, 4, 8)) ==
        "1F1B, p = 4, m = 8: 72.7% busy by one clock; idle inside a rank's own span: at most 9 of "
        "33");
  CHECK(contains(of(zero_bubble_schedule(ZeroBubble::H1, 4, 8)),
                 "88.9% busy by one clock; idle inside a rank's own span: at most 3 of 27"));
  CHECK(contains(of(zero_bubble_schedule(ZeroBubble::H2, 4, 8)),
                 "88.9% busy by one clock; idle inside a rank's own span: at most 0 of 24"));
  const PipelineTimeline timeline = simulate(make_schedule(PipelineKind::one_f_one_b, 4, 8));
  CHECK(idle_inside(timeline.by_rank[0]) == 9);
  CHECK(idle_inside(timeline.by_rank[3]) == 0);
  CHECK(idle_inside({}) == 0);
}

TEST_CASE("a box for each action: its colour is its op's, its number the microbatch's") {
  const std::string drawing = svg(simulate(make_schedule(PipelineKind::one_f_one_b, 4, 8)), "mine");
  CHECK(drawing.starts_with("<svg xmlns"));
  CHECK(drawing.ends_with("</svg>\n"));
  CHECK(contains(drawing, ">mine</text>"));
  CHECK(count(drawing, "fill='#7eb2dd'") == 4 * 8 + 1);  // and one in the legend
  CHECK(count(drawing, "fill='#f09650'") == 4 * 8 + 1);
  CHECK(count(drawing, "W weight gradient") == 0);
  for (int i = 0; i < 8; ++i)  // on four ranks, F and B; those of the axis have another size
    CHECK(count(drawing, fmt::format("text-anchor='middle' font-size='11'>{}<", i)) == 8);
  const std::string chunks =
      svg(simulate(make_schedule(PipelineKind::interleaved, 2, 2, 2)), "chunks");
  CHECK(contains(chunks, "F forward, chunk 1"));
  CHECK(contains(chunks, "one chunk</text>"));
}

TEST_CASE("all idle time is hatched, inside a rank's span in another way than outside") {
  const std::string h2 = svg(simulate(zero_bubble_schedule(ZeroBubble::H2, 4, 8)), "H2");
  CHECK(count(h2, "fill='url(#inside)'") == 1);       // the legend's
  CHECK(count(h2, "fill='url(#outside)'") == 1 + 6);  // three ranks wait before, three after
  CHECK(count(h2, ">bubble</text>") == 4);            // where there is room
  const std::string gpipe = svg(simulate(make_schedule(PipelineKind::gpipe, 4, 8)), "GPipe");
  CHECK(count(gpipe, "fill='url(#inside)'") == 1 + 3);
}

TEST_CASE("a drawing has 900 pixels at most, letters of 9 or more, and text on plain fill") {
  for (const auto& [file, schedule] : drawings()) {
    CAPTURE(file);
    const std::string drawing = text_of("course/pictures/" + file);
    CHECK(contains(drawing, "width='900'"));
    for (const int size : {5, 6, 7, 8})
      CHECK_FALSE(contains(drawing, fmt::format("font-size='{}'", size)));
    CHECK(count(drawing, "<text") == count(drawing, "font-size="));
    CHECK(count(drawing, ">bubble</text>") == count(drawing, "width='42' height='14' fill='#fff'"));
    CHECK(contains(drawing, ">time; 1 is the forward of one microbatch in one "));
  }
}

TEST_CASE("F&B is one box: in text with an &, in the drawing with a thick frame") {
  const PipelineSchedule both = dual_pipe_schedule(2, 4);
  const std::string text = picture(simulate(both));
  CHECK(contains(text, "rank 0   F0 F2 F1 B2--- F3&B0--- B3--- I1 W1"));
  const std::string drawn = svg(simulate(both), "title");
  CHECK(contains(drawn, "stroke-width='2'"));
  CHECK(contains(drawn, "thick: F&amp;B together"));
  CHECK(contains(drawn, "F forward, copy 1"));
  CHECK(contains(svg(simulate(zb_v_schedule(2, 3)), "title"), "F forward, chunk 1"));
  CHECK(!contains(svg(simulate(zb_v_schedule(2, 3)), "title"), "thick"));
}
