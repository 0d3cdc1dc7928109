// Generate: a model writes text, one token at a time.
//
//     "To be"  ──> model ──> logits of the next token ──> draw ──> ","     and again with "To be,"
//
//     temperature   logits / temperature: below 1 safer, above 1 wilder, 0 always the likeliest
//     top_k         only the k likeliest tokens can be drawn
//
// Cost: every token runs the whole window again, so n tokens cost n forward passes of min(length,
// T) tokens. A cache of keys and values would make each pass one token long; here the model stays
// the one that was trained, and the window slides when the text outgrows T. The draw of token i is
// a pure function of (seed, i): the same seed writes the same text. Letters: T context, V
// vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/tensor.hpp"

namespace yotta {

struct SampleOptions {
  double temperature = 1;  // 0: greedy
  int64_t top_k = 0;       // 0: all tokens
  uint64_t seed = 0;
};

// The token that a uniform draw in [0, 1) picks from the softmax of `logits` (V).
int32_t sample_token(std::span<const float> logits, const SampleOptions& options, double draw,
                     Where where = Where::current());

// The model: from ids (1, n) i32, n <= context, to logits f32 whose last row (V) is of the next
// token.
using NextToken = std::function<Tensor(const Tensor& ids)>;

// Continues `prompt` by `count` tokens, and returns what was added.
std::vector<int32_t> generate_tokens(const NextToken& forward, const std::vector<int32_t>& prompt,
                                     int64_t count, int64_t context,
                                     const SampleOptions& options = {},
                                     Where where = Where::current());

// The same with a text whose tokens are bytes.
std::string generate(const NextToken& forward, const std::string& prompt, int64_t count,
                     int64_t context, const SampleOptions& options = {},
                     Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/generate.ipp"
#endif
