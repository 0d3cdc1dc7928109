// Eight functions of a training loop. A student gets each with a bug that the field knows; the
// folder solution has them mended.
//
// Each of README.md's reports is about one of them, and which one is the first thing to find.
//
// Contract: dp are the ranks that train copies of the model on different rows, tp those that share
// its matrices.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

using Values = std::vector<double>;

// The rows of an epoch that this rank reads in a step, `each` of them. All ranks of dp together
// read the same as one rank that reads p times as many. `order` is the epoch's shuffled order, the
// same on all ranks.
inline std::vector<int64_t> rows_of_step(const std::vector<int64_t>& order, int64_t step,
                                         int64_t each, const Communicator& dp) {
  std::vector<int64_t> rows;
  const int64_t batch = each * dp.size();
  const int64_t first = step * batch + dp.rank() * each;
  for (int64_t i = first; i < first + each; ++i)
    rows.push_back(order[static_cast<size_t>(i % std::ssize(order))]);
  return rows;
}

// The gradient of a step: the mean over the microbatches of all ranks of dp. A microbatch's own is
// the mean over its rows, and all have as many rows.
inline Values accumulated(const std::vector<Values>& microbatches, const Communicator& dp) {
  Values sum(microbatches.front().size());
  const double share = 1.0 / static_cast<double>(microbatches.size());
  for (const Values& gradient : microbatches)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += share * gradient[i];
  dp.all_reduce(sum, ReduceOp::mean);
  return sum;
}

struct Microbatch {
  int64_t begin, end;  // rows of the batch
  double weight;       // of its mean gradient in the batch's
};
// A batch in microbatches of at most `size` rows.
inline std::vector<Microbatch> microbatches_of(int64_t rows, int64_t size) {
  std::vector<Microbatch> cut;
  for (int64_t begin = 0; begin < rows; begin += size) {
    const int64_t end = std::min(begin + size, rows);
    cut.push_back({begin, end, static_cast<double>(end - begin) / static_cast<double>(rows)});
  }
  return cut;
}

// The mean losses over dp of the steps up to the first at which some rank's loss is not finite.
// `losses` are this rank's.
inline Values train_until(const Values& losses, const Communicator& dp) {
  Values means;
  for (const double loss : losses) {
    Values broken = {std::isfinite(loss) ? 0.0 : 1.0};
    dp.all_reduce(broken, ReduceOp::max);
    if (broken[0] > 0) break;
    Values mean = {loss};
    dp.all_reduce(mean, ReduceOp::mean);
    means.push_back(mean[0]);
  }
  return means;
}

// What SGD with momentum holds beside a weight.
struct MomentumState {
  Tensor master, momentum;  // the shape of the weight
};
inline MomentumState make_state(const Tensor& weight) {
  MomentumState state;
  state.master = weight.to(DType::f32);
  state.momentum = Tensor::zeros(weight.shape(), DType::f32);
  return state;
}
inline void momentum_step(Tensor& weight, MomentumState& state, const Values& gradient,
                          double rate) {
  Values master = state.master.values(), momentum = state.momentum.values();
  for (size_t i = 0; i < gradient.size(); ++i) {
    momentum[i] = 0.9 * momentum[i] + gradient[i];
    master[i] -= rate * momentum[i];
  }
  state.momentum.copy_from(Tensor::from(momentum, weight.shape()).to(state.momentum.dtype()));
  state.master.copy_from(Tensor::from(master, weight.shape()).to(state.master.dtype()));
  weight.copy_from(state.master.to(weight.dtype()));
}

// The norm of the whole gradient, by which all ranks clip. This rank holds a part of the matrices'
// gradients, whose squares add up to `parts`; those of norms and biases are the same on all ranks
// of tp, and add up to `copies`. All ranks of dp hold the same.
inline double gradient_norm(double parts, double copies, const Communicator& tp,
                            [[maybe_unused]] const Communicator& world) {
  Values all_parts = {parts};
  tp.all_reduce(all_parts);
  return std::sqrt(all_parts[0] + copies);
}

// A checkpoint's files, by name.
using Files = std::map<std::string, Values>;
inline std::string file_of(const std::string& name, int rank, int ranks) {
  return fmt::format("{}.{}-of-{}", name, rank, ranks);
}
// Every rank of dp calls it with its own shard of `name`.
inline void save_shard(Files& files, const std::string& name, const Values& shard,
                       const Communicator& dp) {
  files[file_of(name, dp.rank(), dp.size())] = shard;
  dp.barrier();
}
// The whole, of `ranks` shards with `each` numbers. What no file has is 0.
inline Values restored(const Files& files, const std::string& name, int ranks, int64_t each) {
  Values whole;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto found = files.find(file_of(name, rank, ranks));
    const Values shard = found != files.end() ? found->second : Values(static_cast<size_t>(each));
    whole.insert(whole.end(), shard.begin(), shard.end());
  }
  return whole;
}

// Gradients of one rank by their weights' names: "block 0.norm.weight", "block 0.norm.bias", "block
// 0.up.weight", ...
using Gradients = std::map<std::string, Values>;
// After backward with the tokens shared among tp: a norm has seen this rank's tokens alone, and all
// ranks hold it whole. The matrices are cut among tp, and their gradients are whole.
inline void finish_gradients(Gradients& gradients, const Communicator& tp) {
  for (auto& [name, gradient] : gradients) {
    const bool of_a_norm = name.find("norm.") != std::string::npos;
    if (of_a_norm) tp.all_reduce(gradient);
  }
}

}  // namespace yotta
