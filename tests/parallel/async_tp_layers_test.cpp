#include "yotta/parallel/async_tp_layers.hpp"

#include <doctest/doctest.h>

#include "support/parts_check.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/attention_layer.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 3, T = 9, C = 8, N = B * T;  // 27 tokens: only 1 and 3 divide them
const ParameterOptions in_f64{1, DType::f64};
constexpr Pieces both_kinds[] = {Pieces::one_way, Pieces::both_ways};

}  // namespace

TEST_CASE("pieces travel if tokens are cut among ranks, and pieces are asked for") {
  CHECK_FALSE(in_pieces({}, {T, false, Pieces::one_way}));
  run_ranks(2, [](Communicator& tp) {
    CHECK(in_pieces(tp, {T, false, Pieces::both_ways}));
    CHECK_FALSE(in_pieces(tp, {0, false, Pieces::one_way}));
    CHECK_FALSE(in_pieces(tp, {T}));
  });
}

// Attention's q, k and v and its o: all five functions, against one rank.
TEST_CASE("attention on 1 to 8 ranks with its tokens in pieces is the serial one") {
  const Tensor x = random_tensor({B, T, C}, "x"), dy = random_tensor({B, T, C}, "dy");
  AttentionOptions options{C, 8, 8, 2, AttentionKind::blockwise, true, 1e4};
  options.dropout = 0.3;
  options.initial = options.initial_o = normal(0.5);
  const BatchPosition training{.seed = 3, .step = 1, .first_sequence = 4, .training = true};
  Attention serial("a", options, in_f64);
  Saved saved(training);
  const Tensor y = serial.forward(x, saved), dx = serial.backward_input(dy, saved);
  serial.backward_weight(saved);
  const ParameterPtrs whole = parameters_of(serial);
  for (const Pieces pieces : both_kinds)
    for (const bool keeps : {false, true})
      for (const int ranks : {1, 2, 4, 8}) {
        const auto reports = run_ranks(ranks, [&](Communicator& tp) {
          const bool alone = ranks == 1;
          Attention part("a", options, in_f64,
                         {.tp = tp, .cp = {}, .sequence = {T, keeps, pieces}});
          Saved own(training);
          const Tensor mine = part.forward(alone ? x : own_tokens(x, tp), own);
          check_equal(mine, alone ? y : own_tokens(y, tp), "y", 1e-12, ranks);
          const Tensor back = part.backward_input(alone ? dy : own_tokens(dy, tp), own);
          check_equal(back, alone ? dx : own_tokens(dx, tp), "dx", 1e-12, ranks);
          part.backward_weight(own);
          CHECK(own.bytes() == 0);
          check_parts(parameters_of(part), whole, &Parameter::grad, ranks, 1e-11);
        });
        int64_t bytes = 0, formula = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          bytes += reports[static_cast<size_t>(rank)].ledger().total_traffic().bytes_sent;
          const auto gather = gather_in_pieces_sent(ranks, rank, N, C * 8, pieces);
          const auto scatter = scatter_in_pieces_sent(ranks, rank, N, C * 8, pieces);
          formula += (keeps ? 2 : 3) * gather.bytes + 2 * scatter.bytes;
        }
        CHECK(bytes == (ranks == 1 ? 0 : formula));
      }
}

TEST_CASE("a weight's gradient is reported once, after its last piece") {
  for (const bool bias : {false, true})
    run_ranks(4, [&](Communicator& tp) {
      const SequenceCut cut{T, false, Pieces::one_way};
      Linear reader("m.up", {C, 4, bias}, in_f64);
      Layer* const readers[] = {&reader};
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
      async_weights(readers, own_tokens(x, tp), tp, cut, saved);
      CHECK(reports == 0);
      reader.backward_weight(saved.child("m.up"));
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
      RowParallelLinear row("r", {2 * C, 4, true}, {1, DType::bf16}, tp, {T, false, pieces});
      Saved saved;
      const Tensor y = row.forward(x.reshape({B, T, C}), saved);
      CHECK(y.dtype() == DType::f32);
      CHECK(saved.get("x").dtype() == DType::bf16);
      const Tensor dx = row.backward_input(y, saved);
      CHECK(saved.get("dy").dtype() == DType::bf16);
      CHECK(saved.get("dy").shape() == Shape{N, 4});
      return std::pair{y.values(), dx.values()};
    };
    CHECK(kept(Pieces::none) == kept(Pieces::one_way));
  });
}
