// Chains of operations that lesson 05's compiler fuses: for benchmarks, and for the counts of their
// kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "yotta/core/tensor.hpp"
#include "yotta/device/capture.hpp"
#include "yotta/device/fusion.hpp"

namespace yotta::bench {

inline Array gelu(const Array& x) {
  return x / (exp(x * (x * x * 0.0713548162726 + 1.5957691216) * -1.0) + 1.0);
}
inline Array dropout(const Array& x) {
  return choose(keep_mask(x, 0.25, 7, "drop"), x / 0.75, 0.0);
}
inline Array softmax(const Array& x) {
  const Array e = exp(x - row_max(x));
  return e / row_sum(e);
}
inline Array masked_softmax(const Array& x) {  // of scores: later keys are hidden
  return softmax(choose(row_index(x) < column_index(x), -HUGE_VAL, x));
}
inline Array layernorm(const Array& x) {
  const double columns = static_cast<double>(x.size().columns);
  const Array centred = x - row_sum(x) / columns;
  return centred / sqrt(row_sum(centred * centred) / columns + 1e-5);
}
// Parameters, gradients, means and squares of any number of arrays, one kind after the other.
inline std::vector<Array> adamw(const std::vector<Array>& in) {
  std::vector<Array> out;
  const size_t n = in.size() / 4;
  for (size_t i = 0; i < n; ++i) {
    const Array &w = in[i], &g = in[n + i];
    const Array m = in[2 * n + i] * 0.9 + g * 0.1, v = in[3 * n + i] * 0.95 + g * g * 0.05;
    out.insert(out.end(), {w * 0.9999 - m * 1e-3 / (sqrt(v) + 1e-8), m, v});
  }
  return out;
}

struct Chain {
  const char* name;
  std::vector<Array> (*function)(const std::vector<Array>&);
  int arguments;
  std::vector<int> single = {};  // arguments that are one row: a bias, a gain
  int parts = 1;                 // the others have rows / parts rows
};
inline const Chain chains[] = {
    {"x * 2 + 1, relu",
     [](const std::vector<Array>& in) { return std::vector<Array>{larger(in[0] * 2 + 1.0, 0.0)}; },
     1},
    {"gelu(x + b) + residual",
     [](const std::vector<Array>& in) { return std::vector<Array>{gelu(in[0] + in[1]) + in[2]}; },
     3,
     {1}},
    {"gelu(x + b), dropout, + residual",
     [](const std::vector<Array>& in) {
       return std::vector<Array>{dropout(gelu(in[0] + in[1])) + in[2]};
     },
     3,
     {1}},
    {"softmax", [](const std::vector<Array>& in) { return std::vector<Array>{softmax(in[0])}; }, 1},
    {"masked softmax",
     [](const std::vector<Array>& in) { return std::vector<Array>{masked_softmax(in[0])}; }, 1},
    {"layernorm", [](const std::vector<Array>& in) { return std::vector<Array>{layernorm(in[0])}; },
     1},
    {"layernorm, gain and bias",
     [](const std::vector<Array>& in) {
       return std::vector<Array>{layernorm(in[0]) * in[1] + in[2]};
     },
     3,
     {1, 2}},
    {"AdamW", adamw, 4},
    {"AdamW, 20 arrays", adamw, 80, {}, 20}};

// Arrays of so many numbers, but for those that are one row.
inline std::vector<Tensor> arguments(const Chain& chain, int64_t rows, int64_t columns) {
  std::vector<Tensor> in;
  const int64_t part = std::max<int64_t>(rows / chain.parts, 1);
  for (int i = 0; i < chain.arguments; ++i) {
    const auto& single = chain.single;
    const bool one_row = std::find(single.begin(), single.end(), i) != single.end();
    in.push_back(Tensor::full({one_row ? 1 : part, columns}, 0.25 * (i + 1)));
  }
  return in;
}

// A chain, fused.
struct FusedChain {
  std::vector<Tensor> in;
  Graph graph;
  std::vector<Launch> launches;
  FusedChain(const Chain& chain, int64_t rows, int64_t columns)
      : in(arguments(chain, rows, columns)),
        graph(merge_equal(capture_list(chain.function, in))),
        launches(foreach (graph, kernels(graph, fuse(graph)))) {}
};

// In the sizes that gpu_counters counts: a thread has one or two columns of a row.
inline FusedChain counted(const Chain& chain) { return {chain, 32, 300}; }

}  // namespace yotta::bench
