// What the graded cases of exercise 31 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <memory>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/parallel/streaming_diloco.hpp"

namespace exercise {

// A solution's WorkerShare.
struct Share {
  int64_t begin, end;
  double weight;
};

// What a solution's DilocoOptions are told.
struct Options {
  int64_t inner = 2;
  double rate = 0.7, momentum = 0.9;
  int fragments = 1;
  int64_t overlap = 0;
  double keep = 0;
  int bits = 0;
};

// A solution's class Diloco.
class AnyDiloco {
 public:
  virtual ~AnyDiloco() = default;
  virtual void after_step(double weight) = 0;
  virtual void synchronise() = 0;
  virtual std::deque<yotta::OuterFragment>& fragments() = 0;
};

struct Solution {
  Call<Share(int64_t batch, int k, int worker)> worker_share;
  Call<int(int64_t steps, int64_t inner, int fragments)> fragment_due;
  Call<void(yotta::Tensor& outer, yotta::Tensor& momentum, const yotta::Tensor& mean,
            const Options& options)>
      outer_step;
  Call<void(yotta::Channel& channel, yotta::Tensor& x, double weight, int bits, yotta::Lost& lost)>
      quantised_mean;
  Call<std::unique_ptr<AnyDiloco>(yotta::Optimizer& inner, const yotta::Communicator& workers,
                                  const Options& options)>
      make;
};
extern const Solution solution;

}  // namespace exercise
