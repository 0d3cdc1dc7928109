// What the graded cases of exercise 22 call. adapter.cpp fills it with one solution.
#pragma once

#include <functional>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/parallel/async_tp.hpp"

namespace exercise {

using yotta::Communicator;
using yotta::Pieces;
using yotta::Tensor;

struct Hops {
  int right, left;
};
using WithPiece = std::function<void(int64_t first, const Tensor& rows)>;
using MakePiece = std::function<Tensor(int64_t first, int64_t n)>;

struct Solution {
  Call<Hops(int p, Pieces pieces)> reach_of;
  Call<Tensor(const Tensor& shard, int64_t N, const Communicator& tp, Pieces pieces,
              const WithPiece& multiply)>
      gather;
  Call<Tensor(int64_t N, const Communicator& tp, Pieces pieces, const MakePiece& multiply)> sum;
  Call<int64_t(int p, int rank, int64_t N, int64_t row_bytes, Pieces pieces)> messages;
  Call<int64_t(int p, int rank, int64_t N, int64_t row_bytes, Pieces pieces)> bytes;
  Call<double(int p, Pieces pieces, double M, double H)> seconds;
};
extern const Solution solution;

}  // namespace exercise
