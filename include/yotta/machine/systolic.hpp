// A systolic array: the matrix unit of a TPU, clock by clock. S x S cells multiply at full rate
// while only S numbers per clock come in at the edge: each cell holds one weight and knows only its
// neighbours.
//
//      x (R, S) comes in from the left,        w00 ──► w01 ──► w02 ──►    each clock a cell
//      row by row, each column one                │       │       │       - takes x from its left,
//      clock later than the one before            ▼       ▼       ▼       - takes a sum from above,
//                                              w10 ──► w11 ──► w12 ──►    - adds x * w to it,
//          x20 x10 x00  ──►                       ▼       ▼       ▼       - hands both on.
//      x21 x11 x01   .  ──►                    w20 ──► w21 ──► w22 ──►
//                                                 ▼       ▼       ▼
//                                              y (R, S) = x w comes out below
//
// Each x is read from memory once and used S times without a register file or a cache in between.
// That is why a matrix unit is small. The price is that it must fill and drain.
// Cost: R + 2 S - 2 clocks for R rows, so R / (R + 2 S - 2) of the cells' time is useful.
// Contract: x (R, S), weights (S, S), both row-major; R >= 1.
// References: Kung, "Why Systolic Architectures?" (1982); Jouppi et al. (ISCA 2017), section 2.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

class SystolicArray {
 public:
  // (S, S)
  SystolicArray(std::span<const double> weights, int side)
      : side_(side), weights_(weights.begin(), weights.end()) {
    if (side < 1 || weights_.size() != cells())
      fail(Where::current(), "a systolic array of side {} holds {} weights, not {}", side, cells(),
           weights_.size());
    x_.resize(cells());
    sums_.resize(cells());
    busy_.resize(cells());
  }

  // y (R, S) = x (R, S) w (S, S), run clock by clock.
  std::vector<double> multiply(std::span<const double> x, int rows) {
    if (rows < 1 || x.size() != static_cast<size_t>(rows) * static_cast<size_t>(side_))
      fail(Where::current(), "x should be ({}, {}), but has {} numbers", rows, side_, x.size());
    std::vector<double> y(x.size());
    pictures_.clear();
    for (clocks_ = 0; clocks_ < rows + 2 * side_ - 2; ++clocks_) {
      step(x, rows);
      for (int j = 0; j < side_; ++j) {  // row r's sum of column j leaves the last cell now
        const int r = clocks_ - (side_ - 1) - j;
        if (r >= 0 && r < rows) y[index(r, j)] = sums_[index(side_ - 1, j)];
      }
      pictures_.push_back(picture());
    }
    return y;
  }

  int64_t clocks() const { return clocks_; }      // of the last multiply
  int64_t products() const { return products_; }  // made since construction
  // The array at each clock of the last multiply: # a cell at work, . an idle one; one line per
  // row.
  const std::vector<std::string>& pictures() const { return pictures_; }

 private:
  size_t cells() const { return static_cast<size_t>(side_) * static_cast<size_t>(side_); }
  size_t index(int i, int j) const { return static_cast<size_t>(i * side_ + j); }
  // One clock. Cells take what their neighbours had, so walk from the far corner back.
  void step(std::span<const double> x, int rows) {
    for (int i = side_; i-- > 0;)
      for (int j = side_; j-- > 0;) {
        const int r = clocks_ - i - j;  // the row of x that is here now
        const size_t cell = index(i, j);
        busy_[cell] = r >= 0 && r < rows;
        const double from_left = j > 0 ? x_[index(i, j - 1)] : busy_[cell] ? x[index(r, i)] : 0;
        const double from_above = i > 0 ? sums_[index(i - 1, j)] : 0;
        x_[cell] = from_left;
        sums_[cell] = from_above + from_left * weights_[cell];
        products_ += busy_[cell];
      }
  }
  std::string picture() const {
    std::string text;
    for (int i = 0; i < side_; ++i) {
      for (int j = 0; j < side_; ++j) text += busy_[index(i, j)] ? '#' : '.';
      text += '\n';
    }
    return text;
  }

  int side_, clocks_ = 0;
  int64_t products_ = 0;
  std::vector<double> weights_, x_, sums_;  // (S, S) each
  std::vector<bool> busy_;                  // (S, S)
  std::vector<std::string> pictures_;
};

// Clocks for R rows through an (S, S) array, and the share of them that does useful work.
constexpr int64_t systolic_clocks(int64_t rows, int64_t side) { return rows + 2 * side - 2; }
constexpr double systolic_use(int64_t rows, int64_t side) {
  return static_cast<double>(rows) / static_cast<double>(systolic_clocks(rows, side));
}

}  // namespace yotta
