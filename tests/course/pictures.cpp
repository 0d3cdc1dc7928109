// The picture of the course, a transformer with its four axes: the files are what the program
// draws, they can be read, and every lesson from 12 on begins with the one that says what it cuts.
// And lesson 00's picture of a race.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "course/lesson/h100_runs.hpp"
#include "course/pictures/chip_roofs_picture.hpp"
#include "course/pictures/formats_picture.hpp"
#include "course/pictures/hopper_picture.hpp"
#include "course/pictures/latency_picture.hpp"
#include "course/pictures/multiplies_picture.hpp"
#include "course/pictures/race_picture.hpp"
#include "course/pictures/tile_picture.hpp"
#include "course/pictures/transformer_picture.hpp"
#include "course/pictures/zero_picture.hpp"
#include "runner/exercise.hpp"

using namespace yotta;
namespace fs = std::filesystem;

namespace {

const std::string root = YOTTA_SOURCE_DIR;

// All matches of the first group of a pattern.
std::vector<std::string> found(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    all.push_back((*at)[1]);
  return all;
}

// The picture of a lesson, by its number; throws if there is none or several.
TransformerPicture picture_of(const std::string& number) {
  std::vector<TransformerPicture> all = transformer_pictures();
  std::erase_if(all, [&](const TransformerPicture& picture) {
    return std::count(picture.lessons.begin(), picture.lessons.end(), number) == 0;
  });
  if (all.size() != 1)
    throw std::runtime_error(
        fmt::format("lesson {} begins with {} pictures of the axes; say in "
                    "course/pictures/transformer_picture.cpp which one it is",
                    number, all.size()));
  return all[0];
}

}  // namespace

TEST_CASE("the files in course/pictures are what transformer_svg draws") {
  for (const TransformerPicture& picture : transformer_pictures()) {
    const bool same =
        runner::read_text(root + "/course/pictures/" + picture.file) == transformer_svg(picture);
    CHECK_MESSAGE(same, fmt::format("course/pictures/{} is not what is drawn; ./yotta lesson 12 -- "
                                    "--draw 1 writes it anew into this folder",
                                    picture.file));
  }
}

TEST_CASE("a picture has 900 pixels at most, letters of 11 or more, and stays on its own paper") {
  for (const TransformerPicture& picture : transformer_pictures()) {
    CAPTURE(picture.file);
    const std::string svg = transformer_svg(picture);
    CHECK(std::stoi(found(svg, "<svg [^>]*\\bwidth=\"(\\d+)\"").at(0)) <= 900);
    const auto sizes = found(svg, "font-size=\"(\\d+)\"");
    CHECK(sizes.size() == found(svg, "<(text) ").size());
    for (const std::string& size : sizes) CHECK(std::stoi(size) >= 11);
    // Letters are about 0.6 of their size wide; none leaves the paper, which is white on any
    // background.
    const std::regex place(
        "<text x=\"(\\d+)\" y=\"(\\d+)\" text-anchor=\"(\\w+)\"[^>]*font-size="
        "\"(\\d+)\"[^>]*>([^<]*)<");
    for (std::sregex_iterator at(svg.begin(), svg.end(), place), end; at != end; ++at) {
      const double x = std::stod((*at)[1]), size = std::stod((*at)[4]);
      const double width = 0.58 * size * static_cast<double>((*at)[5].length());
      const double left = (*at)[3] == "start" ? x : (*at)[3] == "end" ? x - width : x - width / 2;
      CHECK_MESSAGE(left >= 4, (*at)[5].str());
      CHECK_MESSAGE(left + width <= 896, (*at)[5].str());
      CHECK(std::stod((*at)[2]) <= 396);
    }
    CHECK(svg.find("<rect x=\"1\" y=\"1\" width=\"898\"") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(found(svg, "(<text )").size() == found(svg, "(</text>)").size());
  }
}

TEST_CASE("what is cut is said in words, not only in colour") {
  for (const TransformerPicture& picture : transformer_pictures()) {
    CAPTURE(picture.file);
    const std::string svg = transformer_svg(picture);
    CHECK(svg.find(">" + picture.title + "<") != std::string::npos);
    CHECK(svg.find(">" + picture.caption + "<") != std::string::npos);
    CHECK(found(svg, "font-weight=\"bold\">([a-z][^<]*)<").size() >= 1);  // an axis' name
    const bool ranks = picture.lit != LitAxis::all && picture.lit != LitAxis::memory;
    const auto r0 = found(svg, ">(r0)<").size(), r1 = found(svg, ">(r1)<").size();
    CHECK(r0 == r1);
    CHECK((r0 > 0) == ranks);
    if (picture.lit == LitAxis::memory)
      CHECK(found(svg, ">(kept)<").size() == found(svg, ">(dropped)<").size());
  }
}

TEST_CASE("lesson 12 and every lesson from 13 to 25 begins with its picture") {
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(root + "/lessons")) {
    const std::string number = entry.path().filename().string().substr(0, 2);
    if (!entry.is_directory() || number < "12" || number > "25") continue;
    there.insert(number);
    const runner::Lines lines = runner::lines_of(runner::read_text(entry.path() / "README.md"));
    const std::string wanted = picture_of(number).markdown();
    CHECK_MESSAGE(lines.at(2) == wanted,
                  fmt::format("line 3 of {}/README.md is not\n{}", entry.path().string(), wanted));
  }
  for (const TransformerPicture& picture : transformer_pictures())
    for (const std::string& number : picture.lessons)
      CHECK_MESSAGE(there.count(number) == 1, fmt::format("there is no lesson {}", number));
}

TEST_CASE("lesson 03 shows the tiles of its law") {
  CHECK_MESSAGE(
      runner::read_text(root + "/course/pictures/matmul_tiles.svg") == tile_svg(),
      "course/pictures/matmul_tiles.svg is not what is drawn; ./yotta lesson 03 -- --measure "
      "0 --draw 1 writes it anew into this folder");
  CHECK(found(tile_svg(), ">(\\d+) \\+ \\d+ numbers for \\d+ product").size() == law_tiles.size());
}

TEST_CASE("chips on one roofline, and how latency lags, are what is drawn") {
  CHECK_MESSAGE(
      runner::read_text(root + "/course/pictures/chip_roofs.svg") == chip_roofs_svg(),
      "course/pictures/chip_roofs.svg is not what is drawn; ./yotta lesson 04 -- --measure "
      "0 --draw 1 writes it anew into this folder");
  CHECK_MESSAGE(
      runner::read_text(root + "/course/pictures/latency_lags.svg") == latency_svg(),
      "course/pictures/latency_lags.svg is not what is drawn; ./yotta lesson 00 -- --draw "
      "1 writes it anew into this folder");
}

TEST_CASE("Hopper's rungs as timelines are what is drawn, and each is busier than the one before") {
  CHECK_MESSAGE(
      runner::read_text(root + "/course/pictures/hopper_rungs.svg") == hopper_svg(),
      "course/pictures/hopper_rungs.svg is not what is drawn; ./yotta lesson 04 -- --measure "
      "0 --draw 1 writes it anew into this folder");
  CHECK(found(hopper_svg(), ">busy: (\\d+)%<") == std::vector<std::string>{"29", "44", "50", "67"});
  for (const HopperTimeline& each : hopper_picture::timelines())
    for (size_t i = 1; i < each.multiplies.size(); ++i)
      CHECK(each.multiplies[i].begin >= each.multiplies[i - 1].end);
}

TEST_CASE("latency lags: Patterson's factors, and throughput ahead at every milestone") {
  const std::vector<Technology> all = latency_lags();
  const double printed[][2] = {{2250, 21}, {1000, 16}, {143, 8}, {120, 4}};
  for (size_t i = 0; i < std::size(printed); ++i) {
    CAPTURE(all[i].name);
    CHECK(std::abs(all[i].wider() / printed[i][0] - 1) < 0.05);
    CHECK(std::abs(all[i].faster() / printed[i][1] - 1) < 0.1);
  }
  for (const Technology& each : all)
    for (size_t i = 1; i < each.milestones.size(); ++i) {
      const Milestone &first = each.milestones[0], &now = each.milestones[i];
      CHECK(now.throughput / first.throughput > first.latency / now.latency);
    }
}

TEST_CASE("lesson 05 shows measured points on two formulas, and what was counted below them") {
  CHECK(multiplies_formula(40, 40) == 1);
  CHECK(multiplies_formula(80, 40) == 2);
  const std::string file = runner::read_text(root + "/course/pictures/multiplies.svg");
  const size_t points = found(file, "(<circle )").size();
  CHECK(points >= 7);
  std::vector<MultiplyPoint> counted;  // what it would be if the kernel did as the formula says
  for (size_t i = 0; i < points; ++i)
    counted.push_back({1 << i, multiplies_formula(1 << i, 20), 8, static_cast<double>(1 << i)});
  const auto words = [](const std::string& svg) { return found(svg, ">(\\d+)</text>"); };
  CHECK(words(file) == words(multiplies_svg(counted)));  // k, bytes and FLOPs under each point
}

TEST_CASE("lesson 01 begins with pi in six formats, every bit of it, as it is drawn") {
  const std::string svg = formats_svg();
  const bool same = runner::read_text(root + "/course/pictures/formats.svg") == svg;
  CHECK_MESSAGE(same, "./yotta lesson 01 -- --draw 1 writes formats.svg anew into this folder");
  int64_t bits = 0;
  for (const NumberFormat& f : formats::all) bits += f.bits();
  CHECK(std::ssize(found(svg, ">([01])</text>")) == bits);
  const std::string page = runner::read_text(root + "/lessons/01_numbers/README.md");
  CHECK(page.find("](../../course/pictures/formats.svg)") < page.find("## On one screen"));
}

TEST_CASE("pictures have 900 pixels at most, and letters of 9 or more") {
  for (const char* file : {"roofline", "matmul_tiles", "mma_m16n8k16", "chip_roofs", "hopper_rungs",
                           "latency_lags", "multiplies", "zero", "formats"}) {
    CAPTURE(std::string(file));
    const std::string svg = runner::read_text(fmt::format("{}/course/pictures/{}.svg", root, file));
    CHECK(std::stoi(found(svg, "<svg [^>]*\\bwidth=\"(\\d+)\"").at(0)) <= 900);
    for (const std::string& size : found(svg, "font-size=\"(\\d+)\"")) CHECK(std::stoi(size) >= 9);
    CHECK(found(svg, "(<text )").size() == found(svg, "(</text>)").size());
  }
}

TEST_CASE("lesson 02 shows the roofline of published runs on an H100, all of them below the roof") {
  const RooflinePicture picture = h100_picture();
  const bool same =
      runner::read_text(root + "/course/pictures/roofline.svg") == roofline_svg(picture);
  CHECK_MESSAGE(same,
                "course/pictures/roofline.svg is not what is drawn; ./yotta lesson 02 -- --svg 2 "
                "writes it anew into this folder");
  for (const RooflinePoint& point : picture.points)
    CHECK_MESSAGE(point.rate < picture.roof.attainable(point.intensity), point.name);
}

TEST_CASE("lesson 14 shows what four ranks hold, as it is drawn, and the formula's bytes") {
  const std::string svg = zero_svg();
  const bool same = runner::read_text(root + "/course/pictures/zero.svg") == svg;
  CHECK_MESSAGE(same, "./yotta lesson 14 -- --draw 1 writes zero.svg anew into this folder");
  CHECK(found(svg, ">([\\d.]+) N<") == std::vector<std::string>{"16", "7", "5.5", "4"});
  const std::string page = runner::read_text(root + "/lessons/14_zero/README.md");
  CHECK(page.find("](../../course/pictures/zero.svg)") != std::string::npos);
}

TEST_CASE("the picture of a race is what race_svg draws, and lesson 00 shows it") {
  const std::string svg = race_svg();
  const bool same = runner::read_text(root + "/course/pictures/race.svg") == svg;
  CHECK_MESSAGE(same, "./yotta lesson 00 -- --draw 1 writes race.svg anew into this folder");
  CHECK(std::stoi(found(svg, "<svg [^>]*\\bwidth=\"(\\d+)\"").at(0)) <= 900);
  for (const std::string& size : found(svg, "font-size=\"(\\d+)\"")) CHECK(std::stoi(size) >= 11);
  CHECK(found(svg, ">(reads \\d+)<") ==
        std::vector<std::string>{"reads 41", "reads 41", "reads 41", "reads 42"});
  CHECK(svg.find(">42: one addition is lost<") != std::string::npos);
  CHECK(svg.find(">43: both additions count<") != std::string::npos);
  const std::string page = runner::read_text(root + "/lessons/00_start/README.md");
  CHECK(page.find("](../../course/pictures/race.svg)") != std::string::npos);
}
