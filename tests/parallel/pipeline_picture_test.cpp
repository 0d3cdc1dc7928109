#include "yotta/parallel/pipeline_picture.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/message_of.hpp"
#include "support/project_file.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

int64_t count(const std::string& text, const std::string& word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
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

TEST_CASE("the course's drawings are these: ./yotta lesson 18 -- --draw 1 makes them again") {
  const auto drawing = [](PipelineKind kind, int v, double width) {
    return svg(simulate(make_schedule(kind, 4, 8, v)), fmt::format("{}, p = 4, m = 8", name(kind)),
               width);
  };
  CHECK(text_of("course/pictures/pipeline_gpipe.svg") == drawing(PipelineKind::gpipe, 1, 900));
  CHECK(text_of("course/pictures/pipeline_1f1b.svg") == drawing(PipelineKind::one_f_one_b, 1, 900));
  CHECK(text_of("course/pictures/pipeline_interleaved.svg") ==
        drawing(PipelineKind::interleaved, 2, 1500));
}

TEST_CASE("colours tell microbatches apart, and are left out where nobody can see them") {
  const PipelineTimeline timeline = simulate(make_schedule(PipelineKind::gpipe, 2, 3));
  const std::string plain = picture(timeline), colored = picture(timeline, 1, true);
  CHECK_FALSE(contains(plain, "\033"));
  CHECK(count(colored, "\033[31m") == 4);  // microbatch 0: F and B on two ranks
  CHECK(count(colored, "\033[0m") == 12);
}

TEST_CASE("the drawing has a box for each action, with its colour, pattern and name") {
  const PipelineTimeline timeline = simulate(make_schedule(PipelineKind::one_f_one_b, 4, 8));
  const std::string drawing = svg(timeline, "1F1B, p = 4, m = 8");
  CHECK(drawing.starts_with("<svg xmlns"));
  CHECK(drawing.ends_with("</svg>\n"));
  CHECK(contains(drawing, "1F1B, p = 4, m = 8: 72.7% busy"));
  CHECK(count(drawing, "<text") == 1 + 4 + 4 * 8 * 2);
  for (int i = 0; i < 8; ++i) {
    CHECK(count(drawing, fmt::format(">F{}<", i)) == 4);
    CHECK(count(drawing, fmt::format(">B{}<", i)) == 4);
  }
  CHECK(count(drawing, "url(#p1)") == 4 * 2 * 2);  // microbatches 1 and 6
  CHECK(count(drawing, "#ee8866") == 4 * 2);       // the color of microbatch 7
  CHECK(contains(svg(simulate(make_schedule(PipelineKind::interleaved, 2, 2, 2)), "i"), ">3B1<"));
}
