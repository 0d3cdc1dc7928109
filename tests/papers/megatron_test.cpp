// Narayanan et al. (2021), Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM: parameters and FLOPs of table 1 and equations 2 and 3, and the communication of
// section 3.2, against what our transformer counts on shapes without data, at the paper's own
// sizes.
#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

using namespace yotta;

namespace {

constexpr int64_t s = 2048, V = 51200;

struct Row {
  double billions;  // of parameters, as printed
  int64_t heads, h, l;
  int t;  // tensor-parallel ranks
};
constexpr Row table[] = {{1.7, 24, 2304, 24, 1},
                         {7.5, 32, 4096, 36, 4},
                         {39.1, 64, 8192, 48, 8},
                         {145.6, 96, 12288, 80, 8},
                         {1008.0, 160, 25600, 128, 8}};

TransformerConfig config_of(const Row& row) {
  TransformerConfig config = gpt2_config(row.l, row.h, row.heads, s, V);
  config.attention = AttentionKind::plain;  // all T x T scores, as the paper counts
  return config;
}

// Equation 2: P = 12 l h^2 (1 + 13 / 12h + (V + s) / 12lh).
constexpr int64_t paper_parameters(const Row& r) {
  return 12 * r.l * r.h * r.h + 13 * r.l * r.h + (V + s) * r.h;
}
// Equation 3 for B sequences, with full recomputation: F = 96 B s l h^2 (1 + s / 6h + V / 16lh).
constexpr double paper_flops(const Row& r, double B) {
  const double h = static_cast<double>(r.h), l = static_cast<double>(r.l);
  return 96 * B * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h));
}

// One sequence forward and backward on `row.t` ranks, on meta; blocks checkpointed if asked for.
std::vector<RankReport> run(const Row& row, const TransformerConfig& config, bool recompute) {
  return run_ranks(row.t, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(config);
    tensor_parallel(model, tp);
    std::vector<LayerPtr> blocks;
    if (recompute)
      blocks = checkpointed(model.stack(), {.what = Recompute::all}, 1, config.layers + 1);
    const Layers stack = recompute ? Layers(blocks) : model.stack();
    Saved saved;
    forward(stack, Tensor::empty({1, s}, DType::i32), saved);
    backward(stack, Tensor::empty({1, s, V / row.t}), saved);
  });
}

}  // namespace

TEST_CASE("table 1 and equation 2: parameters as printed; ours have the last norm's 2 h more") {
  for (const Row& row : table) {
    CHECK(std::abs(static_cast<double>(paper_parameters(row)) / 1e9 - row.billions) <= 0.051);
    CHECK(parameters(config_of(row)) == paper_parameters(row) + 2 * row.h);
  }
}

TEST_CASE("equation 3: FLOPs of all ranks, blocks computed twice forward, exactly") {
  for (const Row& row : {table[0], table[1], table[2]}) {
    double flops = 0;
    for (const RankReport& rank : run(row, config_of(row), true))
      for (const char* op : {"linear", "linear_backward_input", "linear_backward_weight",
                             "attention_plain", "attention_plain_backward"})
        flops += rank.ledger().op(op).flops;
    CHECK(std::abs(flops / paper_flops(row, 1) - 1) <= 1e-12);
  }
}

TEST_CASE("section 3.2: 8 b s h (t-1)/t numbers sent per layer, device and microbatch") {
  for (const int t : {2, 4, 8}) {
    const Row row{0, 64, 8192, 3, t};
    const TransformerConfig config = config_of(row);
    for (const RankReport& rank : run(row, config, false)) {
      const Traffic forward = rank.ledger().traffic("tp.forward");
      const Traffic backward = rank.ledger().traffic("tp.backward");
      const int64_t one = 2 * s * row.h * (t - 1) / t;  // numbers of an all_reduce
      // Two a layer and direction; and the embedding's forward, the head's backward.
      CHECK(forward.bytes_sent == 4 * (2 * row.l + 1) * one);
      CHECK(backward.bytes_sent == forward.bytes_sent);
      CHECK(forward.bytes_sent + backward.bytes_sent - 8 * one ==
            4 * row.l * (8 * s * row.h * (t - 1) / t));
    }
  }
}
