// What the graded cases of exercise 12 call. adapter.cpp fills it with one solution.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/core/system/build.hpp"

namespace exercise {

using Matrix = yotta::MatrixView<const double>;
using MatrixOut = yotta::MatrixView<double>;
using Array = std::span<const double>;
using ArrayOut = std::span<double>;
using Targets = std::span<const int64_t>;

struct Solution {
  Call<void(Matrix dy, Matrix w, MatrixOut dx)> linear_backward_input;
  Call<void(Matrix dy, Matrix x, MatrixOut dw, ArrayOut db)> linear_backward_weight;
  Call<void(Matrix dy, Matrix x, Array w, Array r, MatrixOut dx, ArrayOut dw)> rmsnorm_backward;
  Call<double(Matrix z, Targets targets, double scale, MatrixOut dz)> cross_entropy;
  Call<void(const std::vector<double>& s, Matrix v, int64_t t, int64_t first, double& m, double& l,
            MatrixOut o)>
      add_keys;
  Call<void(Matrix dout, Matrix q, Matrix k, Matrix v, Matrix o, Array L, MatrixOut dq,
            MatrixOut dk, MatrixOut dv)>
      attention_backward;
  Call<int64_t(int64_t N, int64_t I, int64_t O)> linear_step_flops;
};
extern const Solution solution;

}  // namespace exercise
