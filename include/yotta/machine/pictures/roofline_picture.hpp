// The roofline drawn, with points on it: as text for a terminal and as SVG for a page.
//
//     std::fputs(draw_roofline({roof, points}).c_str(), stdout);
//
// Both axes are logarithmic and span whole powers of ten around the points and the ridge, so the
// rates of any machine fit. A point stands where it was measured. Its distance from the roof is
// what is left to gain.
// Reference: Williams, Waterman, Patterson (2009), figure 1.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "yotta/machine/roofline.hpp"

namespace yotta {

// Something that was run, or could be.
struct RooflinePoint {
  std::string name;
  double intensity = 0;  // FLOPs per byte
  double rate = 0;       // FLOP/s
};

struct RooflinePicture {
  Roofline roof;
  std::vector<RooflinePoint> points;
  std::string title{};  // the chip, and what it computes in: "H100 SXM, bf16"
};

// Text: the roof in '/' and '-', points as A, B, C, ... with a legend below.
std::string draw_roofline(const RooflinePicture& picture, int width = 64, int height = 16);
// SVG, 720 wide: the roof, its two halves, and the points as A, B, C, ... with a legend below.
// Names and title must not contain < or &.
std::string roofline_svg(const RooflinePicture& picture);
// 9.894e14 -> "989.4 TFLOP/s"
std::string rate_text(double value, const char* unit = "FLOP/s");

// A range of whole decades, and where a value lies in it, from 0 to 1.
struct Decades {
  int first = 0, last = 1;  // powers of ten

  void include(double value) {
    first = std::min(first, static_cast<int>(std::floor(std::log10(value))));
    last = std::max(last, static_cast<int>(std::ceil(std::log10(value))));
  }
  double place(double value) const { return (std::log10(value) - first) / (last - first); }
  double at(double place) const { return std::pow(10.0, first + place * (last - first)); }
};

struct RooflineAxes {
  Decades intensity, rate;

  explicit RooflineAxes(const RooflinePicture& picture) {
    intensity = {-1, 1};
    intensity.include(picture.roof.ridge() * 2);
    for (const RooflinePoint& point : picture.points) intensity.include(point.intensity);
    const int top = static_cast<int>(std::ceil(std::log10(picture.roof.peak * 1.01)));
    rate = {top - 1, top};
    rate.include(picture.roof.attainable(intensity.at(0)));
    for (const RooflinePoint& point : picture.points) rate.include(point.rate);
  }
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/pictures/impl/roofline_picture.ipp"
#endif
