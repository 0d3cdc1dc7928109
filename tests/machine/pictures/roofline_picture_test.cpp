#include "yotta/machine/pictures/roofline_picture.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
const RooflinePicture picture = {{100e9, 10e9}, {{"dot", 0.25, 2e9}, {"matmul", 200, 80e9}}};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}
}  // namespace

TEST_CASE("text: the slope, the flat, the points and how far they are from the roof") {
  const std::string text = draw_roofline(picture, 61, 10);
  CHECK(text.find("100 GFLOP/s at most") != std::string::npos);
  CHECK(text.find("ridge at 10.0") != std::string::npos);
  CHECK(text.find("A dot") != std::string::npos);
  CHECK(text.find("80.0% of the roof") != std::string::npos);  // both: 2 of 2.5, 80 of 100
  CHECK(count(text, "80.0% of the roof") == 2);
  CHECK(count(text, "\n  │") == 10);
  CHECK(text.find("---") != std::string::npos);
  CHECK(text.find("/") != std::string::npos);
}

TEST_CASE("a point on the roof lies on its line, in the column of its intensity") {
  const RooflinePicture one = {{1e12, 1e10}, {{"ridge", 100, 1e12}}};
  const RooflineAxes axes(one);
  CHECK(axes.intensity.first == -1);
  CHECK(axes.intensity.last == 3);
  CHECK(axes.intensity.place(100) == doctest::Approx(0.75));
  CHECK(axes.rate.place(axes.rate.at(0.3)) == doctest::Approx(0.3));
  const std::string text = draw_roofline(one, 41, 9);
  const size_t at = text.find("A-");
  REQUIRE(at != std::string::npos);
  CHECK(at - text.rfind("│", at) - std::string("│").size() == 30);  // 0.75 of 40
}

TEST_CASE("faster stands higher, and more intense further to the right") {
  const std::string text = draw_roofline(picture, 61, 10);
  const size_t a = text.find('A'), b = text.find('B');  // A slow, B fast
  CHECK(b < a);
  CHECK(a - text.rfind("│", a) < b - text.rfind("│", b));
}

TEST_CASE("far-off points widen the axes instead of leaving the picture") {
  const RooflinePicture far = {{1e9, 1e9}, {{"slow", 1e-4, 1.0}, {"dense", 1e6, 9e8}}};
  const std::string text = draw_roofline(far);
  CHECK(text.find("from 0.0001 to 1e+06") != std::string::npos);
  CHECK(draw_roofline({{1e12, 1e10}, {}}).find("at most") != std::string::npos);
}

TEST_CASE("SVG holds every point, the ridge and the peak") {
  const std::string svg = roofline_svg(picture);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "<circle") == 2);
  CHECK(count(svg, "class=\"roof\"") == 2);
  CHECK(svg.find(">ridge 10<") != std::string::npos);
  CHECK(svg.find(">100 GFLOP/s<") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(count(svg, "<text") == count(svg, "</text>"));
}

TEST_CASE("rates in words") {
  CHECK(rate_text(989.4e12) == "989.4 TFLOP/s");
  CHECK(rate_text(1e9, "B/s") == "1 GB/s");
  CHECK(rate_text(0) == "0 FLOP/s");
  CHECK(rate_text(999.96e9) == "1 TFLOP/s");
}

TEST_CASE("SVG names the chip, its two halves and the share of the roof") {
  RooflinePicture named = picture;
  named.title = "A chip, fp32";
  const std::string svg = roofline_svg(named);
  for (const char* words : {">A chip, fp32<", ">memory-bound<", ">compute-bound<", ">10 GB/s<"})
    CHECK_MESSAGE(count(svg, words) == 1, words);
  CHECK(count(svg, ">80.0% of the roof<") == 2);
  CHECK(count(svg, ">A<") == 2);  // at the point and in the legend
  CHECK(draw_roofline(named).starts_with("  A chip, fp32\n"));
}
