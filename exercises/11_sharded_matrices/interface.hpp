// What the graded cases of exercise 11 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <string>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/sharding/axis_groups.hpp"
#include "yotta/sharding/spreads/boxes.hpp"

namespace exercise {

using yotta::AxisGroups;
using yotta::NamedMesh;
using yotta::Spread;

// The solution's structs, in words of the grader.
struct Part {
  yotta::Tensor local;
  Spread spread;
  yotta::Shape whole;
};
struct Product {
  int which;
  std::string between;
  Spread result;
};
struct Layer {
  std::string in, w_in, w_out, dw_in_local, collective;
};

struct Solution {
  Call<yotta::IndexRange(int64_t size, const std::string& axes, const NamedMesh& mesh, int rank)>
      held_range;
  Call<Part(const Part& x, size_t dim, size_t count, AxisGroups& groups)> gathered;
  Call<Product(const Spread& a, const Spread& b)> product_of;
  Call<Part(const Part& a, const Part& b, int onto, AxisGroups& groups)> sharded_matmul;
  Call<double(int64_t I, int64_t J, int64_t K, const Spread& a, const Spread& b, int64_t width,
              const NamedMesh& mesh)>
      local_intensity;
  Call<Layer(char axis)> data_parallel;
};
extern const Solution solution;

}  // namespace exercise
