// What the graded cases of exercise 08 call. adapter.cpp fills it with one solution.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "course/cases/own_stack.hpp"
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
  Call<bool(int window, int q, int kv)> window;
  Call<bool(const int* document, int T, int b, int q, int kv)> same_document;
  Call<bool(int prefix, int q, int kv)> prefix;
  Call<double(const double* slopes, double score, int h, int q, int kv)> alibi;
  Call<Changed(const double* slopes, double score, int h, int q, int kv)> alibi_dual;
  Call<Kind(const AnyMask& mask, int b, int h, int q_begin, int q_end, int kv_begin, int kv_end)>
      kind_of_tile;
  Call<Lists(const AnyMask& mask, const Sizes& sizes)> by_row;
  Call<Lists(const Lists& by_row, int masks, int rows, int columns)> by_column;
  Call<std::vector<Run>(const Lists& by_row, const Sizes& sizes, int line, int begin, int end,
                        int most)>
      each_run;
  // The runs of the row of tiles that begins with query `begin` of a piece: the loop's keys are
  // those from first_key on, its queries those from first_query on.
  Call<std::vector<Run>(const Lists& by_row, const Sizes& sizes, int b, int h, int first_query,
                        int first_key, int end_key, int begin)>
      runs;
  // Of ALiBi with 2 heads: d is the gradient of the changed score of head h.
  Call<Shares(const double* slopes, double d, double score, int h, int q, int kv)> backward;
};
extern const Solution solution;

}  // namespace exercise
