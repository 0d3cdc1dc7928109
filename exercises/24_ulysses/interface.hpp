// What the graded cases of exercise 24 call. adapter.cpp fills it with one solution.
#pragma once

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
  int64_t (*heads_each)(const Tensor& x, const yotta::Communicator& cp);
  Tensor (*to_heads)(const Tensor& x, const yotta::Communicator& cp, ChunkOrder order);
  Tensor (*to_tokens)(const Tensor& x, const yotta::Communicator& cp, ChunkOrder order);
  Forward (*forward)(const Tensor& q, const Tensor& k, const Tensor& v,
                     const yotta::Communicator& cp, ChunkOrder order);
  // Forward and then backward.
  AttentionGradients (*backward)(const Tensor& dout, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const yotta::Communicator& cp, ChunkOrder order);
  int64_t (*bytes)(int64_t ranks, int64_t all_q_bytes, int64_t all_k_bytes);
};
extern const Solution solution;

}  // namespace exercise
