// What the benchmarks of attention on the CPU share: their sizes, their options, their inputs.
#pragma once

#include "bench.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta::bench {

struct AttentionOptions {
  std::string json;
  int rounds = 9;
  int64_t tokens = 4096, d = 64, heads = 4;
  bool quick = false, cpu_time = false;
};

inline void add_attention_options(CLI::App& app, AttentionOptions& options) {
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--rounds", options.rounds, "measurements of each")->check(CLI::Range(1, 1000));
  app.add_option("--tokens", options.tokens, "T")->check(CLI::Range(1, 1 << 16));
  app.add_option("--d", options.d, "numbers of a head")->check(CLI::Range(1, 1024));
  app.add_option("--heads", options.heads, "H")->check(CLI::Range(1, 1024));
  app.add_flag("--cpu-time", options.cpu_time, "count processor time");
  app.add_flag("--quick", options.quick, "300 tokens and one round");
}

// The sizes that --quick says, after the options have been read.
inline void make_quick(AttentionOptions& options) {
  if (options.quick) options.rounds = 1, options.tokens = 300;
}

// (1, T, H, d), normal.
inline Tensor attention_input(const AttentionOptions& options, const char* name) {
  Tensor x = Tensor::empty({1, options.tokens, options.heads, options.d});
  const Random random(1, name);
  for (uint64_t i = 0; float& value : x.span<float>())
    value = static_cast<float>(random.normal(i++));
  return x;
}

}  // namespace yotta::bench
