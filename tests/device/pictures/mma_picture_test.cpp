#include "yotta/device/pictures/mma_picture.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace yotta;

namespace {

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a fragment drawn: each box names its lane and elements") {
  const std::string c = draw_fragment(mma_shapes[0].c);
  CHECK(
      c.starts_with("C (16 x 8)\n       0        2        4        6\n"
                    "  0 |  0 c0,1   1 c0,1   2 c0,1   3 c0,1\n"
                    "  1 |  4 c0,1   5 c0,1   6 c0,1   7 c0,1\n"));
  CHECK(c.ends_with(" 15 | 28 c2,3  29 c2,3  30 c2,3  31 c2,3\n"));
  CHECK(draw_fragment(mma_shapes[0].b).find("\n  3 |  1 b1   5 b1   9 b1") != std::string::npos);
  CHECK(draw_fragment(mma_shapes[4].a).find("\n  8 |  0 a4-7   1 a4-7") != std::string::npos);
  CHECK(count(draw_fragment(mma_shapes[6].a), "\n") == 1 + 4 * 9);  // Volta: four matrices
}

TEST_CASE("one lane alone: its boxes and nobody else's") {
  const std::string a = draw_fragment(mma_shapes[0].a, 5);
  CHECK(count(a, "5 a") == 4);
  CHECK(count(a, " a") == 4);
  CHECK(a.find("\n  9 |  .        5 a2,3") != std::string::npos);
}

TEST_CASE("the page's picture is what the functions draw now") {
  const std::string svg = svg_of_mma(mma_shapes[0], 5);
  // The paper, pairs of A and C, single elements of B, and the legend's box.
  CHECK(count(svg, "<rect") == 1 + 128 + 128 + 64 + 1);
  CHECK(count(svg, "#1f3a5f") == 4 + 4 + 2 + 1);  // lane 5
  CHECK(count(svg, "large number: the lane") == 1);
  CHECK(count(svg, "small number: which of the lane's elements, a0,1") == 1);
  for (int size = 1; size < 9; ++size)
    CHECK(count(svg, fmt::format("font-size=\"{}\"", size)) == 0);
  std::ifstream file(YOTTA_SOURCE_DIR "/course/pictures/mma_m16n8k16.svg");
  std::stringstream page;
  page << file.rdbuf();
  const bool same = page.str() == svg;
  CHECK_MESSAGE(same, "course/pictures/mma_m16n8k16.svg is not what svg_of_mma draws");
}
