// What the graded cases of exercise 23 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/narrow.hpp"

namespace exercise {

using yotta::AttentionBlock;
using yotta::AttentionGradients;
using yotta::FlashAttention;
using yotta::Tensor;

enum class Order { zigzag, contiguous };  // of the chunks

struct Solution {
  Call<int64_t(int ranks, int rank, int64_t i)> chunk_of;  // zigzag
  Call<int64_t(int ranks, int rank, int64_t i)> contiguous_chunk_of;
  Call<AttentionBlock(int ranks, int rank, int64_t n, int64_t i, int from, int64_t j, Order order)>
      block;
  Call<FlashAttention(const Tensor& q, const Tensor& k, const Tensor& v,
                      const yotta::Communicator& cp, Order order)>
      forward;
  Call<AttentionGradients(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                          const FlashAttention& saved, const yotta::Communicator& cp, Order order)>
      backward;
};
extern const Solution solution;

}  // namespace exercise
