// The bodies of model/generate.hpp.
#pragma once

#include "yotta/model/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "yotta/core/options.hpp"
#include "yotta/core/random.hpp"

namespace yotta {

YOTTA_INLINE int32_t sample_token(std::span<const float> logits, const SampleOptions& options,
                                  double draw, Where where) {
  check_option(where, "SampleOptions::temperature", options, &SampleOptions::temperature,
               zero_or_more);
  check_option(where, "SampleOptions::top_k", options, &SampleOptions::top_k, zero_or_more);
  if (logits.empty() ||
      !std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    fail(where,
         "the model gave no logits, or some of its {} are infinite or NaN: it has diverged, or its "
         "weights were never set",
         logits.size());
  std::vector<int32_t> order(logits.size());  // token ids, likeliest first; equal ones by id
  std::iota(order.begin(), order.end(), 0);
  const bool limited = options.top_k > 0 && options.top_k < std::ssize(order);
  const int64_t kept = options.temperature == 0 ? 1 : limited ? options.top_k : std::ssize(order);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  if (options.temperature == 0) return order[0];

  std::vector<double> weight;  // of the kept ones, against the likeliest
  for (int64_t i = 0; i < kept; ++i)
    weight.push_back(std::exp((logits[order[i]] - logits[order[0]]) / options.temperature));
  double left = draw * std::accumulate(weight.begin(), weight.end(), 0.0);
  for (int64_t i = 0; i < kept; ++i)
    if ((left -= weight[i]) < 0) return order[i];
  return order[kept - 1];  // rounding used up the draw
}

YOTTA_INLINE std::vector<int32_t> generate_tokens(const NextToken& forward,
                                                  const std::vector<int32_t>& prompt, int64_t count,
                                                  int64_t context, const SampleOptions& options,
                                                  Where where) {
  if (prompt.empty()) fail(where, "a model continues a text: give a prompt of at least one token");
  check_number(where, "the context of a model", static_cast<double>(context), one_or_more);
  const Random random(options.seed, "sample");
  std::vector<int32_t> tokens = prompt;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = std::min(std::ssize(tokens), context);
    Tensor ids = Tensor::empty({1, n}, DType::i32);
    std::copy(tokens.end() - n, tokens.end(), ids.data<int32_t>());
    const Tensor logits = forward(ids);
    const auto vocabulary = static_cast<size_t>(logits.dim(-1));
    const std::span<const float> last = logits.span<float>().last(vocabulary);
    tokens.push_back(sample_token(last, options, random.uniform(i), where));
  }
  return {tokens.begin() + std::ssize(prompt), tokens.end()};
}

YOTTA_INLINE std::string generate(const NextToken& forward, const std::string& prompt,
                                  int64_t count, int64_t context, const SampleOptions& options,
                                  Where where) {
  if (prompt.empty()) fail(where, "a model continues a text: give a prompt of at least one byte");
  std::vector<int32_t> bytes;
  for (const char each : prompt) bytes.push_back(static_cast<unsigned char>(each));
  std::string text;
  for (const int32_t token : generate_tokens(forward, bytes, count, context, options, where)) {
    if (token > 255)
      fail(where, "token {} is not a byte; a model of other tokens is sampled by generate_tokens",
           token);
    text += static_cast<char>(token);
  }
  return text;
}

}  // namespace yotta
