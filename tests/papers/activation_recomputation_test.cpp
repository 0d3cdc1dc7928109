// Korthikanti et al. (2022), Reducing Activation Recomputation in Large Transformer Models, arXiv
// 2205.05198.
#include <doctest/doctest.h>

#include "support/cut_model.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/activation_memory.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Table 3: the models. Sequence 2048, vocabulary 51200, tensor-parallel 8.
struct Model {
  const char* name;
  double a, h, L, p, m, b;  // heads, width, layers, pipeline ranks, chunks per rank, microbatch
  ActivationSizes sizes() const { return {2048, b, h, a, 8}; }
  double gibibytes(bool sequence_parallel, Recomputed what) const {
    return activation_bytes_first_stage(sizes(), sequence_parallel, what, L, p, m) / (1 << 30);
  }
};
constexpr Model model22 = {"22B", 64, 6144, 48, 1, 1, 4};
constexpr Model model175 = {"175B", 96, 12288, 96, 8, 3, 1};

constexpr double vocabulary = 51200, a100 = 312e12;

// Bytes that rank 0 of 8 keeps of one layer, counted by running the layer in bf16 on the device
// meta; in the paper's terms: without the norms' statistics, and with the dropped probabilities,
// which we make again.
double counted(const Model& m, const TokenCut& cut, Recompute what) {
  const auto whole = [](double number) { return static_cast<int64_t>(number); };
  TransformerConfig config = gpt2_config(1, whole(m.h), whole(m.a), 2048, 51200);
  config.attention = AttentionKind::plain;
  config.dropout = config.attention_dropout = 0.1;
  config.dtype = DType::bf16;
  double bytes = 0;
  run_ranks(8, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(config, 1, 2);
    cut_model(model, tp, cut);
    const auto layers = checkpointed(model.stack(), {what});
    const int64_t B = whole(m.b), T = 2048;
    Saved saved({0, 0, 0, 0, true});
    forward(layers,
            cut.T > 0 ? Tensor::empty({B * T / 8, config.width}, DType::bf16)
                      : Tensor::empty({B, T, config.width}, DType::bf16),
            saved);
    if (tp.rank() == 0) bytes = static_cast<double>(saved.bytes());
  });
  const double rows = 2048 * m.b, squares = m.a * 2048 * rows / 8;
  return bytes - 16 * rows / (cut.T > 0 ? 8 : 1) + (what == Recompute::none ? 2 * squares : 0);
}

}  // namespace

TEST_CASE("figure 1 again, from bytes that a layer of the models keeps, counted on meta") {
  for (const Model& m : {model22, model175}) {
    CAPTURE(std::string(m.name));
    const double layers = m.L * (m.m > 1 ? 1 + (m.p - 1) / (m.p * m.m) : 1) / (1 << 30);
    const auto check = [&](const TokenCut& cut, Recompute recompute, Recomputed what) {
      CHECK(counted(m, cut, recompute) * layers ==
            doctest::Approx(m.gibibytes(cut.T > 0, what)).epsilon(1e-14));
    };
    check({}, Recompute::none, Recomputed::none);
    check({}, Recompute::attention, Recomputed::attention);
    check({2048}, Recompute::none, Recomputed::none);
    check({2048}, Recompute::attention, Recomputed::attention);
    const double sbh = 2048 * m.b * m.h;  // kept, the inputs of q, k, v and of up are whole
    CHECK(counted(m, {2048, true}, Recompute::attention) == sbh * (4 + 30.0 / 8));
  }
}

TEST_CASE("table 2: bytes per layer, in units of sbh") {
  const ActivationSizes z{2048, 2, 4096, 32, 8};
  const double sbh = 2048.0 * 2 * 4096, squares = 5 * 32 * 2048.0 / 4096;
  const ActivationSizes one{2048, 2, 4096, 32, 1};
  using R = Recomputed;
  CHECK(activation_bytes_per_layer(one, false, R::none) == sbh * (34 + squares));
  CHECK(activation_bytes_per_layer(z, false, R::none) == sbh * (10 + 24.0 / 8 + squares / 8));
  CHECK(activation_bytes_per_layer(z, true, R::none) == sbh * (34.0 / 8 + squares / 8));
  CHECK(activation_bytes_per_layer(z, false, R::attention) == sbh * (10 + 24.0 / 8));
  CHECK(activation_bytes_per_layer(z, true, R::attention) == sbh * 34 / 8);
  CHECK(activation_bytes_per_layer(z, true, R::all) == 2 * sbh);
}

TEST_CASE(
    "figure 1: GiB of activations, tensor parallelism alone, and with sequence parallelism and "
    "selective recomputation") {
  CHECK(model22.gibibytes(false, Recomputed::none) == 59.25);
  CHECK(model22.gibibytes(true, Recomputed::attention) == 9.5625);
  CHECK(model175.gibibytes(false, Recomputed::none) == 66.84375);
  CHECK(model175.gibibytes(true, Recomputed::attention) == 12.3515625);
}

TEST_CASE("figure 7: share of the tensor-parallel baseline, to within 0.2 of what is printed") {
  struct Row {
    Model model;
    double sequence, selective, both, full;
  };
  for (const Row& row :
       {Row{model22, 66.8, 49.4, 16.2, 7.6}, Row{model175, 62.0, 56.5, 18.5, 8.7}}) {
    CAPTURE(std::string(row.model.name));
    const auto share = [&](bool sequence_parallel, Recomputed what) {
      return 100 * row.model.gibibytes(sequence_parallel, what) /
             row.model.gibibytes(false, Recomputed::none);
    };
    CHECK(std::abs(share(true, Recomputed::none) - row.sequence) <= 0.2);
    CHECK(std::abs(share(false, Recomputed::attention) - row.selective) <= 0.2);
    CHECK(std::abs(share(true, Recomputed::attention) - row.both) <= 0.2);
    CHECK(std::abs(share(false, Recomputed::all) - row.full) <= 0.2);
  }
}

TEST_CASE(
    "table 5: model and hardware FLOPs utilisation on A100, to within the rounding of the "
    "seconds") {
  struct Row {
    Model model;
    double gpus, batch, seconds, mfu, hfu;
  };
  for (const Row& row :
       {Row{model22, 8, 4, 1.10, 41.5, 43.7}, Row{model175, 64, 64, 13.75, 51.4, 52.8}}) {
    CAPTURE(std::string(row.model.name));
    ActivationSizes z = row.model.sizes();
    z.b = row.batch;
    const double possible = row.gpus * row.seconds * a100 / 100;
    CHECK(model_flops(z, row.model.L, vocabulary) / possible ==
          doctest::Approx(row.mfu).epsilon(0.005));
    CHECK(selective_flops(z, row.model.L, vocabulary) / possible ==
          doctest::Approx(row.hfu).epsilon(0.005));
  }
}

TEST_CASE(
    "section 4.2.3: the first stage of 1F1B holds L layers' worth, interleaved 1 + (p-1)/(pm) of "
    "it") {
  for (const int p : {2, 4, 8})
    for (const int m : {1, 2, 3}) {
      const int L = p * m * 2, microbatches = 8 * p;
      const PipelineKind kind = m == 1 ? PipelineKind::one_f_one_b : PipelineKind::interleaved;
      const auto schedule = make_schedule(kind, p, microbatches, m);
      const double layers = static_cast<double>(most_in_flight(schedule.by_rank[0])) * L / (p * m);
      const ActivationSizes unit{1, 1, 1, 0, 1};
      CHECK(layers ==
            doctest::Approx(activation_bytes_first_stage(unit, false, Recomputed::all, L, p, m) / 2)
                .epsilon(1e-14));
    }
}
