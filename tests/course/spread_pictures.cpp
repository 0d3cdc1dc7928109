// Lesson 11's pictures: the files are what is drawn, blocks have the ranks that hold them, and
// words can be read.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <regex>

#include "course/pictures/spread_picture.hpp"
#include "runner/exercise.hpp"

using namespace yotta;

namespace {

const std::string root = YOTTA_SOURCE_DIR;

struct Picture {
  const char* file;
  std::string (*draw)();
};
const Picture pictures[] = {{"spreads.svg", spreads_svg},
                            {"product_cases.svg", product_cases_svg},
                            {"feed_forward_spreads.svg", feed_forward_spreads_svg}};

bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("lesson 11's pictures are what is drawn, and the lesson shows them") {
  const std::string page = runner::read_text(root + "/lessons/11_sharded_matrices/README.md");
  for (const Picture& picture : pictures) {
    const bool same =
        runner::read_text(root + "/course/pictures/" + picture.file) == picture.draw();
    CHECK_MESSAGE(same, fmt::format("./yotta lesson 11 -- --draw 1 writes {} anew", picture.file));
    CHECK(holds(page, fmt::format("](../../course/pictures/{})", picture.file)));
  }
}

TEST_CASE(
    "lesson 11's pictures are at most 900 pixels wide, with letters of 9 or more on the paper") {
  for (const Picture& picture : pictures) {
    CAPTURE(std::string(picture.file));
    const std::string svg = picture.draw();
    std::smatch head;
    REQUIRE(
        std::regex_search(svg, head, std::regex("<svg [^>]*width=\"(\\d+)\" height=\"(\\d+)\"")));
    CHECK(std::stoi(head[1]) <= 900);
    const std::regex words(
        "<text x=\"(\\d+)\" y=\"(\\d+)\" "
        "text-anchor=\"(\\w+)\"[^>]*font-size=\"(\\d+)\"[^>]*>([^<]*)<");
    int found = 0;
    for (std::sregex_iterator at(svg.begin(), svg.end(), words), end; at != end; ++at, ++found) {
      const double x = std::stod((*at)[1]), size = std::stod((*at)[4]);
      const double length = 0.58 * size * static_cast<double>((*at)[5].length());
      const double left = (*at)[3] == "start" ? x : (*at)[3] == "end" ? x - length : x - length / 2;
      CHECK(size >= 9);
      CHECK_MESSAGE(left >= 4, (*at)[5].str());
      CHECK_MESSAGE(left + length <= 896, (*at)[5].str());
      CHECK_MESSAGE(std::stod((*at)[2]) <= std::stod(head[2]) - 4, (*at)[5].str());
    }
    CHECK(found > 20);
  }
}

TEST_CASE("a block of a matrix has the ranks that hold it") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const auto blocks = held_blocks(parse_spread("[I_X, J]", mesh), mesh);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].ranks == std::vector<int>{0, 2});
  CHECK(blocks[1].ranks == std::vector<int>{1, 3});
  CHECK(spread_text(parse_spread("[I_XY, J]", mesh), mesh) ==
        "  I0 |     0\n  I1 |     2\n  I2 |     1\n  I3 |     3\n");
  CHECK(spread_text(parse_spread("[I, J_Y]{U_X}", mesh), mesh) == "  I0 |   0+1 |   2+3\n");
}

TEST_CASE("a legend tells of a plus where the picture has one") {
  for (const auto& draw : {spreads_svg, product_cases_svg, feed_forward_spreads_svg}) {
    const std::string svg = draw();
    CHECK(holds(svg, ">+<") == holds(svg, "red plus"));
  }
}

TEST_CASE("the picture of the techniques names the collectives of each") {
  const std::string svg = feed_forward_spreads_svg();
  for (const char* words : {">all_reduce dW_in over X<", ">all_gather W_in over X<",
                            ">reduce_scatter dW_out over X<", ">all_reduce Out over Y<"})
    CHECK(holds(svg, words));
}
