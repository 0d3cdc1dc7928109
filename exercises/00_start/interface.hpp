// What the graded cases of exercise 00 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <chrono>
#include <thread>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/race.hpp"
#include "yotta/core/exercise.hpp"

namespace exercise {

struct Solution {
  void (*mean_over_ranks)(const yotta::Communicator& world, std::vector<float>& x);
  std::vector<float> (*pass_right)(const yotta::Communicator& world,
                                   const std::vector<float>& mine);
  int64_t (*add_to_counter)(const yotta::Communicator& world, yotta::SharedCounter& counter,
                            int64_t found);
};
extern const Solution solution;

}  // namespace exercise
