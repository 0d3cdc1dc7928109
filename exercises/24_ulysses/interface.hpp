// What the graded cases of exercise 24 call. adapter.cpp fills it with one solution.
#pragma once

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/parallel/context_parallel.hpp"

namespace exercise {

using yotta::AttentionGradients;
using yotta::ChunkOrder;
using yotta::Tensor;

struct Forward {
  Tensor o;  // (B, T/cp, H, d)
  // What was kept for the backward pass; the last two are attention's own.
  Tensor q, k, v, attention_o, attention_log_sum_exp;
};

struct Solution {
  Call<int64_t(const Tensor& x, const yotta::Communicator& cp)> heads_each;
  Call<Tensor(const Tensor& x, const yotta::Communicator& cp, ChunkOrder order)> to_heads;
  Call<Tensor(const Tensor& x, const yotta::Communicator& cp, ChunkOrder order)> to_tokens;
  Call<Forward(const Tensor& q, const Tensor& k, const Tensor& v, const yotta::Communicator& cp,
               ChunkOrder order)>
      forward;
  // Forward and then backward.
  Call<AttentionGradients(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                          const yotta::Communicator& cp, ChunkOrder order)>
      backward;
  Call<int64_t(int64_t ranks, int64_t all_q_bytes, int64_t all_k_bytes)> bytes;
};
extern const Solution solution;

}  // namespace exercise
