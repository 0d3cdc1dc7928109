// What the graded cases of exercise 10 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include "course/cases/own_stack.hpp"
#include "yotta/comm/channel.hpp"
#include "yotta/core/exercise.hpp"

namespace exercise {

struct Solution {
  Call<void(yotta::Channel& ring, yotta::ConstData in, yotta::Data out, yotta::ReduceOp op)>
      reduce_scatter_ring;
  Call<void(yotta::Channel& ring, yotta::ConstData in, yotta::Data out)> all_gather_ring;
  Call<void(yotta::Channel& ring, yotta::Data data, yotta::ReduceOp op)> all_reduce_ring;
  Call<int64_t(int p, int rank, int64_t n, int64_t width)> ring_bytes_sent;
};
extern const Solution solution;

}  // namespace exercise
