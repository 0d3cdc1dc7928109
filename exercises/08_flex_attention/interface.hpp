// What the graded cases of exercise 08 call. adapter.cpp fills it with one solution.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "yotta/core/exercise.hpp"
#include "yotta/nn/flash_attention.hpp"

namespace exercise {

using yotta::Tensor;

using AnyMask = std::function<bool(int b, int h, int q, int kv)>;

enum class Kind { empty, partial, full };

struct Lists {
  std::vector<int> first, at;
  std::vector<Kind> kind;
};
// The sizes of a block mask.
struct Sizes {
  int B = 1, H = 1, queries = 0, keys = 0, BQ = 1, BK = 1;
};
struct Run {
  int key, n;
  bool whole;
};
// A score that a score_mod has changed, and its derivatives.
struct Changed {
  double value, by_score, by_slope;
};
// What backward gives: the score's gradient, and those of two slopes.
struct Shares {
  double score, slopes[2];
};

struct Solution {
  bool (*window)(int window, int q, int kv);
  bool (*same_document)(const int* document, int T, int b, int q, int kv);
  bool (*prefix)(int prefix, int q, int kv);
  double (*alibi)(const double* slopes, double score, int h, int q, int kv);
  Changed (*alibi_dual)(const double* slopes, double score, int h, int q, int kv);
  Kind (*kind_of_tile)(const AnyMask& mask, int b, int h, int q_begin, int q_end, int kv_begin,
                       int kv_end);
  Lists (*by_row)(const AnyMask& mask, const Sizes& sizes);
  Lists (*by_column)(const Lists& by_row, int masks, int rows, int columns);
  std::vector<Run> (*each_run)(const Lists& by_row, const Sizes& sizes, int line, int begin,
                               int end, int most);
  // The runs of the row of tiles that begins with query `begin` of a piece: the loop's keys are
  // those from first_key on, its queries those from first_query on.
  std::vector<Run> (*runs)(const Lists& by_row, const Sizes& sizes, int b, int h, int first_query,
                           int first_key, int end_key, int begin);
  // Of ALiBi with 2 heads: d is the gradient of the changed score of head h.
  Shares (*backward)(const double* slopes, double d, double score, int h, int q, int kv);
};
extern const Solution solution;

}  // namespace exercise
