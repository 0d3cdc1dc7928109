#include "yotta/parallel/async_tp_layers.hpp"

#include <doctest/doctest.h>

#include "support/cut_model.hpp"
#include "support/parts_check.hpp"
#include "yotta/comm/run_on.hpp"

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 3, T = 9, C = 8, F = 24, N = B * T;  // 27 tokens: only 1 and 3 divide them
const ParameterOptions in_f64{1, DType::f64};
const BatchPosition training{.seed = 3, .step = 1, .first_sequence = 4, .training = true};
constexpr Pieces both_kinds[] = {Pieces::one_way, Pieces::both_ways};

// Forward and backward of a layer on one rank, with which its parts are compared.
class SerialRun {
 public:
  SerialRun(Layer& layer, int64_t width)
      : x_(random_tensor({B, T, width}, "x")), dy_(random_tensor({B, T, width}, "dy")) {
    Saved saved(training);
    y_ = layer.forward(x_, saved);
    dx_ = layer.backward_input(dy_, saved);
    layer.backward_weight(saved);
    parameters_ = parameters_of(layer);
  }
  void check(Layer& part, const Communicator& tp) const {
    const int ranks = tp.size();
    const auto own = [&](const Tensor& all) { return ranks == 1 ? all : own_tokens(all, tp); };
    Saved saved(training);
    check_equal(part.forward(own(x_), saved), own(y_), "y", 1e-12, ranks);
    check_equal(part.backward_input(own(dy_), saved), own(dx_), "dx", 1e-12, ranks);
    part.backward_weight(saved);
    CHECK(saved.bytes() == 0);
    check_parts(parameters_of(part), parameters_, &Parameter::grad, ranks, 1e-11);
  }

 private:
  Tensor x_, dy_, y_, dx_;
  ParameterPtrs parameters_;
};

}  // namespace

// Attention's q, k and v and its o: all five functions, against one rank.
TEST_CASE("attention on 1 to 8 ranks with its tokens in pieces is the serial one") {
  const int64_t width = 2 * C;
  TransformerConfig config = llama_config(1, width, 4, 8, 8, T, 1);
  config.dtype = DType::f64, config.seed = 1, config.deviation = 0.5, config.dropout = 0.3;
  Attention serial("a", config);
  const SerialRun serial_run(serial, width);
  for (const Pieces pieces : both_kinds)
    for (const bool keeps : {false, true})
      for (const int ranks : {1, 2, 4, 8}) {
        const auto reports = run_ranks(ranks, [&](Communicator& tp) {
          Attention part("a", config);
          cut_half(part, tp, {T, keeps, pieces});
          serial_run.check(part, tp);
        });
        int64_t bytes = 0, formula = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          bytes += reports[static_cast<size_t>(rank)].ledger().total_traffic().bytes_sent;
          const auto gather = gather_in_pieces_sent(ranks, rank, N, width * 8, pieces);
          const auto scatter = scatter_in_pieces_sent(ranks, rank, N, width * 8, pieces);
          formula += (keeps ? 2 : 3) * gather.bytes + 2 * scatter.bytes;
        }
        CHECK(bytes == (ranks == 1 ? 0 : formula));
      }
}

TEST_CASE("a weight's gradient is reported once, after its last piece") {
  for (const bool bias : {false, true})
    run_ranks(4, [&](Communicator& tp) {
      Readers only;
      only.add(std::make_unique<Linear>("m.up", LinearOptions{C, 4, bias}, in_f64));
      AsyncColumns readers(std::move(only), std::make_shared<SequenceBorder>(tp, T),
                           Pieces::one_way);
      Linear& reader = readers[0];
      int reports = 0;
      std::vector<double> reported;
      for (const ParameterPtr& each : parameters_of(reader))
        each->on_grad_ready = [&](Parameter& parameter) {
          ++reports;
          reported = parameter.grad.values();
        };
      const Tensor x = random_tensor({B, T, C}, "x"), dy = random_tensor({N, 4}, "dy");
      Saved saved;
      saved.child("m.up").keep("dy", dy);
      saved.keep("x", own_tokens(x, tp));
      readers.backward_weight(saved);
      CHECK(reports == (bias ? 2 : 1));
      Linear alone("m.up", {C, 4, bias}, in_f64);
      Saved whole;
      whole.keep("x", as_rows(x));
      whole.keep("dy", dy);
      alone.backward_weight(whole);
      check_equal(parameters_of(reader)[0]->grad, parameters_of(alone)[0]->grad, "dW", 1e-12, 4);
      CHECK(reported.size() == parameters_of(alone).back()->grad.values().size());
      check_equal(parameters_of(reader).back()->grad, parameters_of(alone).back()->grad, "last",
                  1e-12, 4);
    });
}

// bf16 weights and f32 x: the sums travel in f32 and are rounded once, whole or in pieces.
TEST_CASE("types are those of the whole collectives") {
  const Tensor x = random_tensor({N, C}, "x").to(DType::f32);
  run_ranks(2, [&](Communicator& tp) {
    const auto kept = [&](Pieces pieces) {
      Linear whole("r", {2 * C, 4, true}, {1, DType::bf16});
      cut_by_rows(whole, tp);
      const auto border = std::make_shared<SequenceBorder>(tp, T);
      std::unique_ptr<Linear> row;
      if (pieces == Pieces::none)
        row = std::make_unique<RowParallelLinear>(std::move(whole), border);
      else
        row = std::make_unique<AsyncRowLinear>(std::move(whole), border, pieces);
      Saved saved;
      const Tensor y = row->forward(x.reshape({B, T, C}), saved);
      CHECK(y.dtype() == DType::f32);
      CHECK(saved.get("x").dtype() == DType::bf16);
      const Tensor dx = row->backward_input(y, saved);
      CHECK(saved.get("dy").dtype() == DType::bf16);
      CHECK(saved.get("dy").shape() == Shape{N, 4});
      return std::pair{y.values(), dx.values()};
    };
    CHECK(kept(Pieces::none) == kept(Pieces::one_way));
  });
}

TEST_CASE("the MLP on 1 to 8 ranks, its tokens in pieces, is the serial one") {
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu}) {
    const MlpOptions options{kind, C, F, true, 0.3, normal(0.5), normal(0.5)};
    Mlp serial("m", options, in_f64);
    const SerialRun serial_run(serial, C);
    for (const Pieces pieces : both_kinds)
      for (const bool keeps : {false, true})
        for (const int ranks : {1, 2, 3, 4, 8}) {
          const auto reports = run_ranks(ranks, [&](Communicator& tp) {
            Mlp part("m", options, in_f64);
            cut_half(part, tp, {T, keeps, pieces});
            serial_run.check(part, tp);
          });
          for (int rank = 0; ranks > 1 && rank < ranks; ++rank) {
            const Sent gather = gather_in_pieces_sent(ranks, rank, N, C * 8, pieces);
            const Sent scatter = scatter_in_pieces_sent(ranks, rank, N, C * 8, pieces);
            const Traffic sent = reports[static_cast<size_t>(rank)].ledger().total_traffic();
            CHECK(sent.bytes_sent == (keeps ? 2 : 3) * gather.bytes + 2 * scatter.bytes);
            CHECK(sent.messages_sent == (keeps ? 4 : 5) * (ranks - 1));
          }
        }
  }
}

TEST_CASE("after the forward pass it keeps what the MLP keeps with whole collectives") {
  run_ranks(4, [&](Communicator& tp) {
    const auto kept = [&](bool keeps, Pieces pieces) {
      Mlp mlp("m", {MlpKind::swiglu, C, F, false, 0.5}, in_f64);
      cut_half(mlp, tp, {T, keeps, pieces});
      Saved saved(training);
      mlp.forward(own_tokens(random_tensor({B, T, C}, "x"), tp), saved);
      return saved.bytes();
    };
    for (const bool keeps : {false, true})
      CHECK(kept(keeps, Pieces::one_way) == kept(keeps, Pieces::none));
  });
}

// Llama 3 8B's MLP on 4 H100: both widths of a rank, 3584 and 3584, are above
// async_tp_hidden_width.
TEST_CASE("on the clock an MLP in pieces waits for no token, whole collectives cost their time") {
  const Cluster cluster = cluster_named("h100x4");
  constexpr int64_t width = 4096, hidden = 14336, tokens = 8192;
  const auto seconds = [&](Pieces pieces, bool with_backward) {
    return run_on(cluster, 4,
                  [&](Communicator& tp) {
                    const DeviceScope meta(Device::meta);
                    Mlp mlp("m", {MlpKind::swiglu, width, hidden, false}, {1, DType::bf16});
                    cut_half(mlp, tp, {tokens, false, pieces});
                    Saved saved(training);
                    const Tensor x = Tensor::empty({tokens / 4, width}, DType::bf16);
                    const Tensor y = mlp.forward(x, saved);
                    if (!with_backward) return;
                    mlp.backward_input(y, saved);
                    mlp.backward_weight(saved);
                  })
        .seconds();
  };
  const Link link = cluster.link(0, 1);
  const double bulk = 3 * link.seconds(2.0 * (tokens / 4) * width);  // one collective
  const double add =
      op_seconds(cluster.chip, elementwise_cost("add", DType::bf16, tokens / 4 * width, 1, 2, 1));
  CHECK(hidden / 4 > async_tp_hidden_width(cluster.chip.bf16, 1 / link.beta, 2));
  struct Pass {
    int collectives, scatters, matmuls;  // matmuls that are done in pieces
  };
  for (const Pass& pass : {Pass{2, 1, 3}, Pass{5, 2, 8}}) {
    const bool with_backward = pass.matmuls > 3;
    const double paid = 3 * (pass.scatters * add + pass.matmuls * cluster.chip.launch_overhead);
    CHECK(seconds(Pieces::one_way, with_backward) ==
          doctest::Approx(seconds(Pieces::none, with_backward) - pass.collectives * bulk + paid)
              .epsilon(1e-9));
  }
}
