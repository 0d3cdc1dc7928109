// MFU as papers and benchmarks print it, recomputed from what they print beside it: PaLM,
// Megatron-LM, Megatron's sequence parallelism, Megatron-Turing NLG, Llama 3, MosaicML's tables,
// DeepSeek-V3. Where a paper counts in a way of its own, the case says how.
#include <doctest/doctest.h>

#include <cmath>

#include "yotta/plan/mfu.hpp"

using namespace yotta;

namespace {

double percent(double share) { return 100 * share; }
bool within(double actual, double printed, double relative) {
  return std::abs(actual / printed - 1) <= relative;
}

constexpr double s = 2048, V = 51200, a100 = 312e12;

// A GPT of Megatron: C, L, heads; vocabulary 51,200, sequences of 2048.
CountedModel gpt(int64_t width, int64_t layers, int64_t heads) {
  return counted_model(gpt2_config(layers, width, heads, 2048, 51200));
}

}  // namespace

TEST_CASE("PaLM 540B, appendix B and table 3: 46.2%, and 45.7% without attention") {
  const CountedModel palm = palm_540b();
  const double N = 540.35e9, tokens = 238.3e3, chips = 6144, peak = 275e12;
  const double attention = model_flops(palm, s, Scores::all) - model_flops(palm, s, Scores::none);
  CHECK(attention == doctest::Approx(12.0 * 118 * 48 * 256 * s));  // 12 L H Q T
  CHECK(std::abs(percent(mfu(6 * N + attention, tokens, chips, peak)) - 46.2) <= 0.05);
  CHECK(std::abs(percent(mfu(6 * N, tokens, chips, peak)) - 45.7) <= 0.05);
  // The tied table is its output matrix, so 6 N is what is computed.
  CHECK(within(model_flops(palm, s, Scores::all), 6 * N + attention, 1e-5));
}

TEST_CASE("Megatron-LM, SC21, table 1: percent of the peak, which is HFU; MFU is three quarters") {
  struct Row {
    int64_t h, l, heads;
    double teraflops, of_peak, gpus, batch;
  };
  for (const Row& row : {Row{2304, 24, 24, 137, 44, 32, 512},
                         {4096, 36, 32, 142, 46, 128, 512},
                         {8192, 48, 64, 138, 44, 512, 1536},
                         {12288, 80, 96, 148, 47, 1536, 2304},
                         {25600, 128, 160, 163, 52, 3072, 3072}}) {
    const CountedModel model = gpt(row.h, row.l, row.heads);
    CHECK(std::abs(percent(row.teraflops * 1e12 / a100) - row.of_peak) <= 0.51);
    // Their TFLOP/s count four forward passes of the blocks, so tokens per second follow from them.
    const double computed = hardware_flops(model, s, Scores::all, Recomputed::all);
    const double tokens = row.teraflops * 1e12 * row.gpus / computed;
    CHECK(percent(mfu(computed, tokens, row.gpus, a100)) ==
          doctest::Approx(percent(row.teraflops * 1e12 / a100)));
    const double share = mfu(model_flops(model, s, Scores::all), tokens, row.gpus, a100) /
                         (row.teraflops * 1e12 / a100);
    CHECK(share > 0.75);  // the output matrix is not computed again
    CHECK(share < 0.77);
  }
  // Section 5.1: 175B parameters on 300e9 tokens, 1024 GPUs at 140 TFLOP/s: 34 days, as 8 T P / (n
  // X).
  CHECK(std::abs(8 * 300e9 * 175e9 / (1024 * 140e12) / 86400 - 34) <= 0.5);
}

// Their HFU adds 12 b s^2 h a layer for selective recomputation, attention's forward and backward.
// What is computed again is its forward pass, a third of that (hardware_flops).
TEST_CASE(
    "Korthikanti et al., table 5: MFU and HFU of four models, within the rounding of seconds") {
  struct Row {
    int64_t h, L, heads;
    double gpus, batch, seconds, mfu, hfu;
  };
  for (const Row& row : {Row{6144, 48, 64, 8, 4, 1.10, 41.5, 43.7},
                         {12288, 96, 96, 64, 64, 13.75, 51.4, 52.8},
                         {20480, 105, 128, 280, 280, 37.83, 56.0, 57.0},
                         {25600, 128, 160, 512, 512, 71.49, 56.3, 57.0}}) {
    const CountedModel model = gpt(row.h, row.L, row.heads);
    const auto h = static_cast<double>(row.h), L = static_cast<double>(row.L);
    const double tokens = row.batch * s / row.seconds, needed = model_flops(model, s, Scores::all);
    CHECK(needed == doctest::Approx(model_flops({s, 1, h}, L, V) / s).epsilon(1e-12));
    CHECK(within(percent(mfu(needed, tokens, row.gpus, a100)), row.mfu, 0.005));
    const double theirs = selective_flops({s, 1, h}, L, V) / s;
    CHECK(within(percent(mfu(theirs, tokens, row.gpus, a100)), row.hfu, 0.005));
    const double ours = hardware_flops(model, s, Scores::all, Recomputed::attention);
    CHECK((theirs - needed) / (ours - needed) == doctest::Approx(3).epsilon(1e-6));
  }
}

// Smith et al. (2022), section 3.2: seconds of an iteration on 280, 350 and 420 DGX A100; TFLOP/s
// as Megatron-LM counts them. The middle row prints 121; its seconds give 120.4.
TEST_CASE("Megatron-Turing NLG 530B: 126, 121 and 113 TFLOP/s per GPU, 30% MFU") {
  struct Row {
    double nodes, seconds, teraflops;
  };
  const CountedModel model = gpt(20480, 105, 128);
  for (const Row& row : {Row{280, 60.1, 126}, {350, 50.2, 121}, {420, 44.4, 113}}) {
    const double tokens = 1920 * s / row.seconds, gpus = 8 * row.nodes;
    const double computed = hardware_flops(model, s, Scores::all, Recomputed::all);
    CHECK(within(computed * tokens / gpus / 1e12, row.teraflops, 0.006));
    // PaLM, table 3, prints 30.2% for the run on 280 nodes.
    const double needed = model_flops(model, s, Scores::all);
    if (row.nodes == 280) CHECK(within(percent(mfu(needed, tokens, gpus, a100)), 30.2, 0.005));
  }
}

TEST_CASE("Llama 3 405B, table 4: MFU is TFLOP/s over the dense bf16 peak") {
  const double peak = chip_named("h100").bf16;
  for (const auto& [teraflops, printed] : {std::pair{430.0, 43.0}, {400.0, 41.0}, {380.0, 38.0}})
    CHECK(std::abs(percent(teraflops * 1e12 / peak) - printed) <= 0.6);  // 40.4 is printed as 41
}

// llm-foundry, scripts/train/benchmarking/README.md: MPT models, FSDP on H100. They count 6 N and
// all scores; N and tokens per second and GPU as printed, widths and layers from their yamls. HFU
// is four thirds with checkpointing.
TEST_CASE(
    "MosaicML's H100 tables: MFU falls with the sequence, and with fp8 as tokens per second rise") {
  struct Row {
    double N, C, L, T, tokens, mfu, hfu, peak;
  };
  const Chip& h100 = chip_named("h100");
  for (const Row& row : {Row{64862437376, 8192, 80, 2048, 1039, 42.57, 56.76, h100.bf16},
                         {29989894144, 7168, 48, 4096, 1802, 35.86, 47.81, h100.bf16},
                         {12853954560, 5120, 40, 2048, 4792, 39.79, 39.79, h100.bf16},
                         {6658859008, 4096, 32, 2048, 10643, 46.44, 46.44, h100.bf16},
                         {6918905856, 4096, 32, 65536, 1956, 28.59, 38.13, h100.bf16},
                         {2651837440, 2560, 32, 2048, 22525, 40.80, 40.80, h100.bf16},
                         {2651837440, 2560, 32, 2048, 30586, 27.70, 27.70, h100.fp8}}) {
    CountedModel model;
    model.layers = static_cast<int64_t>(row.L), model.width = static_cast<int64_t>(row.C);
    model.heads = 1, model.head_size = model.width;
    const double needed = 6 * row.N + 3 * forward_flops(model, row.T, Scores::all).scores;
    const double found = mfu(needed, row.tokens, 1, row.peak);
    CHECK(within(percent(found), row.mfu, 0.001));
    const bool again = row.hfu > row.mfu;
    CHECK(within(percent(again ? found * 4 / 3 : found), row.hfu, 0.001));
  }
}

TEST_CASE("DeepSeek-V3: 21.6% of 1.513e15, and 16.5% of the H800's dense fp8 peak") {
  const double active = 37e9, tokens = 14.8e12, seconds = 2.79e6 * 3600;  // of GPUs
  const auto share = [&](double peak) {
    return percent(mfu(6 * active, tokens / seconds, 1, peak));
  };
  CHECK(std::abs(share(1.513e15) - 21.6) <= 0.05);
  CHECK(std::abs(share(chip_named("h100").fp8) - 16.5) <= 0.05);
  CHECK(std::abs(share(chip_named("h100").bf16) - 33.1) <= 0.05);
  // Section 4.2: sequences of 4096 tokens. Causal scores are an eighth of what a token needs.
  const double needed = model_flops(deepseek_v3_671b(), 4096, Scores::causal);
  CHECK(within(needed, 6 * 36.6e9 + 3 * 61 * 2 * 128.0 * 320 * 2048, 0.005));
}
