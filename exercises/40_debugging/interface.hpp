// What the graded cases of exercise 40 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/tensor.hpp"

namespace exercise {

using Values = std::vector<double>;
using Files = std::map<std::string, Values>;
using Gradients = std::map<std::string, Values>;

struct Part {
  int64_t begin, end;
  double weight;
};

using Accumulate =
    std::function<Values(const std::vector<Values>& microbatches, const yotta::Communicator& dp)>;

struct Solution {
  Call<std::vector<int64_t>(const std::vector<int64_t>& order, int64_t step, int64_t each,
                            const yotta::Communicator& dp)>
      rows_of_step;
  Call<Values(const std::vector<Values>& microbatches, const yotta::Communicator& dp)> accumulated;
  Call<std::vector<Part>(int64_t rows, int64_t size)> microbatches_of;
  Call<Values(const Values& losses, const yotta::Communicator& dp)> train_until;
  // The weight after steps with the same gradient.
  Call<yotta::Tensor(const yotta::Tensor& weight, const Values& gradient, double rate, int steps)>
      trained;
  Call<double(double parts, double copies, const yotta::Communicator& tp,
              const yotta::Communicator& world)>
      gradient_norm;
  Call<void(Files& files, const std::string& name, const Values& shard,
            const yotta::Communicator& dp)>
      save_shard;
  Call<Values(const Files& files, const std::string& name, int ranks, int64_t each)> restored;
  Call<void(Gradients& gradients, const yotta::Communicator& tp)> finish_gradients;
};
extern const Solution solution;

}  // namespace exercise
