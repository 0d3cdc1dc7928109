#include "yotta/parallel/fsdp_tp_mixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/cut_model.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/parallel/fsdp.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Two axes for FSDP, one for tp, as the source's example of a TPU v5p.
FsdpTpMixture v5p(double tokens_per_chip, double F = 32768) {
  return {tokens_per_chip * 4096, 8192, F, 4096, 4.59e14, 1.8e11, 2, 1};
}

}  // namespace

TEST_CASE("X_opt is where the sweep is least, and both gathers take the same time there") {
  for (const double tokens : {100.0, 500.0, 2000.0}) {
    const FsdpTpMixture m = v5p(tokens);
    const double X = best_fsdp_ranks(m);
    double least = 1e300, at = 0;
    for (double tried = 1; tried <= 4096; tried += 0.25)
      if (mixture_sent_seconds(m, tried) < least)
        least = mixture_sent_seconds(m, tried), at = tried;
    CHECK(std::abs(X - at) <= 0.25);
    CHECK(mixture_fsdp_seconds(m, X) / mixture_tp_seconds(m, X) == doctest::Approx(1));
    const auto power = static_cast<double>(best_fsdp_ranks_tried(m));
    CHECK(std::max(power / X, X / power) < 1.5);
  }
}

TEST_CASE(
    "B/p > 4 (P/W)^2 / (M_X M_Y F): above it the best mixture is bound by FLOPs, below it not") {
  const double least = least_tokens_per_chip(v5p(1));
  CHECK(least == doctest::Approx(4 * 2550.0 * 2550 / (2 * 32768)).epsilon(1e-3));
  for (const double share : {0.99, 1.01}) {
    const FsdpTpMixture m = v5p(share * least);
    CHECK((mixture_math_seconds(m) > mixture_sent_seconds(m, best_fsdp_ranks(m))) == (share > 1));
  }
  // FSDP alone, X = p: P / (W M_X) tokens per chip, whatever F is.
  for (const double F : {8192.0, 32768.0}) {
    const FsdpTpMixture enough = v5p(2550.0 / 2 * 1.001, F), few = v5p(2550.0 / 2 * 0.999, F);
    CHECK(mixture_math_seconds(enough) > mixture_fsdp_seconds(enough, enough.p));
    CHECK(mixture_math_seconds(few) < mixture_fsdp_seconds(few, few.p));
  }
}

TEST_CASE("a layer that is run sends these bytes: weights over X, tokens over Y") {
  const int64_t B = 64, D = 32, F = 128;
  for (const int X : {1, 2, 4, 8}) {
    const int Y = 8 / X;
    const Timed run = run_on(ideal(8, 1, 1), 1, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      std::vector<int> columns, rows;
      for (int y = 0; y < Y; ++y) columns.push_back(y);
      for (int x = 0; x < X; ++x) rows.push_back(x * Y);
      const MlpOptions options{.width = D, .hidden = F, .bias = false};
      std::vector<LayerPtr> layers;
      auto mlp = std::make_unique<Mlp>("mlp", options, ParameterOptions{0, DType::bf16});
      cut_half(*mlp, world.mirrored(columns), {B / X});
      layers.push_back(std::move(mlp));
      Fsdp fsdp(layers, world.mirrored(rows));
      Saved saved;
      forward(fsdp.stack(), Tensor::empty({B / X / Y, D}, DType::bf16), saved);
    });
    const Ledger& ledger = run.reports[0].ledger();
    const int64_t weights = ledger.traffic("fsdp.all_gather").bytes_sent;
    CHECK(weights == (X - 1) * 4 * D * F / 8);
    CHECK(ledger.traffic("sp.forward").bytes_sent == (Y - 1) * 4 * B * D / 8);
  }
}
