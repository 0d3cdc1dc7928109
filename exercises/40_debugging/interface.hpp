// What the graded cases of exercise 40 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

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
  std::vector<int64_t> (*rows_of_step)(const std::vector<int64_t>& order, int64_t step,
                                       int64_t each, const yotta::Communicator& dp);
  Values (*accumulated)(const std::vector<Values>& microbatches, const yotta::Communicator& dp);
  std::vector<Part> (*microbatches_of)(int64_t rows, int64_t size);
  Values (*train_until)(const Values& losses, const yotta::Communicator& dp);
  // The weight after steps with the same gradient.
  yotta::Tensor (*trained)(const yotta::Tensor& weight, const Values& gradient, double rate,
                           int steps);
  double (*gradient_norm)(double parts, double copies, const yotta::Communicator& tp,
                          const yotta::Communicator& world);
  void (*save_shard)(Files& files, const std::string& name, const Values& shard,
                     const yotta::Communicator& dp);
  Values (*restored)(const Files& files, const std::string& name, int ranks, int64_t each);
  void (*finish_gradients)(Gradients& gradients, const yotta::Communicator& tp);
};
extern const Solution solution;

}  // namespace exercise
