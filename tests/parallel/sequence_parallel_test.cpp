#include "yotta/parallel/sequence_parallel.hpp"

#include <doctest/doctest.h>

#include <array>

#include "support/cut_model.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 3, T = 9, C = 5, F = 24, N = B * T;  // 27 tokens: only 1 and 3 divide them
const ParameterOptions in_f64{1, DType::f64};
const BatchPosition training{.seed = 3, .step = 1, .first_sequence = 4, .training = true};

int64_t sent_by_all(const std::vector<RankReport>& reports, const char* label) {
  int64_t sum = 0;
  for (const RankReport& rank : reports) sum += rank.ledger().traffic(label).bytes_sent;
  return sum;
}

}  // namespace

TEST_CASE("the number of all tokens follows from a rank's, for every cut of at least p tokens") {
  for (const int p : {1, 2, 3, 4, 5, 8})
    for (int64_t t = p; t < 3 * p; ++t)
      for (int64_t b = 0; b < 5; ++b)
        for (int r = 0; r < p; ++r) CHECK(all_tokens(chunk_count(b * t, p, r), p, r, t) == b * t);
}

TEST_CASE("g gathers the tokens, its conjugate adds up the parts; each is the other's backward") {
  const Tensor whole = random_tensor({B, T, C}, "x");
  for (const int ranks : {2, 3, 4, 8}) {
    const auto reports = run_ranks(ranks, [&](Communicator& tp) {
      const SequenceBorder border(tp, T);
      const Tensor own = own_tokens(whole, tp);
      check_equal(border.enter(own), whole, "all_gather", 0);
      check_equal(border.leave_back(own), whole, "all_gather backward", 0);
      Tensor part = whole.clone(), sum = own.clone();  // rank r has (r + 1) x: the sum is known
      for (double& number : part.span<double>()) number *= tp.rank() + 1;
      for (double& number : sum.span<double>()) number *= ranks * (ranks + 1) / 2.0;
      check_equal(border.leave(part), sum, "reduce_scatter", 1e-12, ranks);
      check_equal(border.enter_back(part), sum, "reduce_scatter backward", 1e-12, ranks);
    });
    const int64_t one = sequence_parallel_bytes_sent_by_all(ranks, N, C, 8);
    CHECK(sent_by_all(reports, "sp.forward") == 2 * one);
    CHECK(sent_by_all(reports, "sp.backward") == 2 * one);
  }
}

TEST_CASE(
    "where the tokens divide, an all_gather and a reduce_scatter send what an all_reduce does") {
  for (const int p : {2, 4, 8})
    CHECK(2 * sequence_parallel_bytes_sent_by_all(p, 64, C, 8) ==
          tensor_parallel_bytes_sent_by_all(p, 64 * C, 8));
}

TEST_CASE(
    "on the virtual clock each takes p - 1 messages of a run, both what an all_reduce takes") {
  const Cluster cluster = cluster_named("h100x8");
  const double alpha = cluster.levels[0].alpha, beta = cluster.levels[0].beta;
  constexpr int64_t sequence = 4096, width = 1024;
  for (const int p : {2, 4, 8}) {
    const auto seconds = [&](auto body) {
      return run_on(cluster, p,
                    [&](Communicator& tp) {
                      const DeviceScope meta(Device::meta);
                      body(tp);
                    })
          .seconds();
    };
    const auto numbers = [](const Shape& shape) { return Tensor::empty(shape, DType::bf16); };
    const double g = seconds([&](Communicator& tp) {
      SequenceBorder(tp, sequence).enter(numbers({sequence / p, width}));
    });
    const double conjugate = seconds([&](Communicator& tp) {
      SequenceBorder(tp, sequence).leave(numbers({1, sequence, width}));
    });
    const double all_reduce = seconds([&](Communicator& tp) {
      Border(tp).leave(numbers({1, sequence, width}));
    });
    const double run = 2.0 * sequence * width / p;  // bytes
    CHECK(g == doctest::Approx((p - 1) * (alpha + beta * run)).epsilon(1e-12));
    CHECK(conjugate == doctest::Approx(g).epsilon(1e-12));
    CHECK(all_reduce == doctest::Approx(g + conjugate).epsilon(1e-12));
  }
}

TEST_CASE("the MLP on 1 to 8 ranks, each with its tokens, is the serial one") {
  const Tensor x = random_tensor({B, T, C}, "x"), dy = random_tensor({B, T, C}, "dy");
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    for (const bool keeps : {false, true}) {
      const MlpOptions options{kind, C, F, true, 0.3, normal(0.5), normal(0.5)};
      Mlp serial("m", options, in_f64);
      const ParameterPtrs whole = parameters_of(serial);
      const Passes expected = forward_backward(serial, x, dy, training);
      for (const int ranks : {1, 2, 3, 4, 8}) {
        const auto reports = run_ranks(ranks, [&](Communicator& tp) {
          Mlp part("m", options, in_f64);
          cut_half(part, tp, {T, keeps});
          const bool alone = ranks == 1;
          const ParameterPtrs own = parameters_of(part);
          const Passes out = forward_backward(part, alone ? x : own_tokens(x, tp),
                                              alone ? dy : own_tokens(dy, tp), training);
          check_equal(out.y, alone ? expected.y : own_tokens(expected.y, tp), "y", 1e-12, ranks);
          check_equal(out.dx, alone ? expected.dx : own_tokens(expected.dx, tp), "dx", 1e-12,
                      ranks);
          check_parts(own, whole, &Parameter::grad, ranks, 1e-11);
        });
        const int64_t one = ranks == 1 ? 0 : sequence_parallel_bytes_sent_by_all(ranks, N, C, 8);
        CHECK(sent_by_all(reports, "sp.forward") == 2 * one);   // g, and its conjugate
        CHECK(sent_by_all(reports, "sp.backward") == 2 * one);  // and back
        CHECK(sent_by_all(reports, "sp.again") == (keeps ? 0 : one));
        CHECK(sent_by_all(reports, "tp.forward") == 0);
      }
    }
}

TEST_CASE("what was gathered is dropped after the forward pass, or kept by the one who asks") {
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    for (const int ranks : {2, 3, 4})
      run_ranks(ranks, [&](Communicator& tp) {
        const auto kept = [&](bool keeps) {
          Mlp mlp("m", {kind, C, F, false, 0.5}, in_f64);
          cut_half(mlp, tp, {T, keeps});
          Saved saved(training);
          mlp.forward(own_tokens(random_tensor({B, T, C}, "x"), tp), saved);
          return saved.bytes();
        };
        const int64_t n = tokens_held(N, tp), matrices = kind == MlpKind::gelu ? 1 : 2;
        const int64_t inside = 8 * N * (matrices + 1) * F / ranks, mask = n * C;
        CHECK(kept(false) == inside + mask + 8 * n * C);
        CHECK(kept(true) == inside + mask + 8 * N * C);
      });
}

TEST_CASE("dropout: the ranks together drop what one rank drops, also of zig-zag positions") {
  const Tensor x = Tensor::full({B, 10, C}, 1, DType::f64);
  for (const Positions& positions : {Positions{7}, Positions{5, 30}}) {
    BatchPosition place = training;
    place.positions = positions;
    Saved saved(place);
    Dropout serial("d", 0.4);
    const Tensor y = serial.forward(x, saved), dx = serial.backward_input(x, saved);
    for (const int ranks : {2, 3, 4, 8})
      run_ranks(ranks, [&](Communicator& tp) {
        SequenceDropout part(Dropout("d", 0.4), std::make_shared<SequenceBorder>(tp, 10));
        const int64_t first = chunk_begin(B * 10, ranks, tp.rank());
        const auto own = [&](const Tensor& whole) {
          return as_rows(whole).rows(first, first + tokens_held(B * 10, tp));
        };
        Saved mine(place);
        check_equal(part.forward(own(x), mine), own(y), "y", 0);
        CHECK(mine.bytes() == tokens_held(B * 10, tp) * C);
        check_equal(part.backward_input(own(x), mine), own(dx), "dx", 0);
        Saved evaluated;
        const Tensor same = own(x);
        CHECK(part.forward(same, evaluated).shares_memory(same));
      });
  }
}

// The mistake of Megatron-LM's issue 1446: a norm's weights are whole on each rank, nobody cuts
// them, so they look as if they needed nothing. Training goes on; the ranks' norms drift apart.
TEST_CASE("a norm's gradients are of the rank's tokens alone, until they are added up over tp") {
  const Tensor x = random_tensor({B, T, C}, "x"), dy = random_tensor({B, T, C}, "dy");
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
    Norm serial("m.norm1", {kind, C}, in_f64);
    forward_backward(serial, x, dy, training);
    const ParameterPtrs whole = parameters_of(serial);
    for (const int ranks : {2, 3, 4, 8}) {
      const auto reports = run_ranks(ranks, [&](Communicator& tp) {
        Norm part("m.norm1", {kind, C}, in_f64);
        Linear other("m.down", {C, C, true}, in_f64);
        ParameterPtrs own = parameters_of(part);
        forward_backward(part, own_tokens(x, tp), own_tokens(dy, tp), training);
        for (size_t i = 0; i < own.size(); ++i)
          CHECK_FALSE(compare(own[i]->grad, whole[i]->grad, 1e-3).equal);
        ParameterPtrs all = parameters_of(other);
        all[1]->gradient().fill(7);
        all.insert(all.end(), own.begin(), own.end());
        reduce_own_token_gradients(all, tp);
        check_parts(own, whole, &Parameter::grad, ranks, 1e-12);
        CHECK(all[1]->grad.values() == std::vector<double>(C, 7));  // not of its kind
      });
      const int64_t numbers = C * std::ssize(whole);
      CHECK(sent_by_all(reports, "sp.gradients") ==
            tensor_parallel_bytes_sent_by_all(ranks, numbers, 8));
    }
  }
}

TEST_CASE("which parameters see their rank's tokens alone") {
  const auto sees = [](const char* name) {
    Parameter parameter;
    parameter.name = name;
    return sees_own_tokens(parameter);
  };
  for (const char* own : {"norm.weight", "norm.bias", "layers.0.norm1.weight",
                          "layers.11.norm2.bias", "embedding.position.weight"})
    CHECK_MESSAGE(sees(own), own);
  for (const char* other :
       {"embedding.token.weight", "head.weight", "layers.0.attention.q.bias",
        "layers.0.attention.o.bias", "layers.0.mlp.down.bias", "layers.0.mlp.down.weight"})
    CHECK_MESSAGE(!sees(other), other);
}

TEST_CASE("positions of a rank's tokens") {
  run_ranks(4, [&](Communicator& tp) {
    const Tensor own = token_positions(Tensor::zeros({1}, DType::i32), 3 * 6, {2, 9}, tp, 6);
    std::vector<double> all;
    for (int64_t token = 0; token < 18; ++token)
      all.push_back(static_cast<double>(Positions{2, 9}.of(token % 6, 6)));
    const auto first = all.begin() + chunk_begin(18, 4, tp.rank());
    CHECK(own.values() == std::vector<double>(first, first + tokens_held(18, tp)));
  });
}

TEST_CASE("on one rank the tokens are a list, and no bit is another") {
  const Tensor x = random_tensor({B, T, C}, "x"), dy = random_tensor({B, T, C}, "dy");
  const MlpOptions options{MlpKind::swiglu, C, F, true, 0.3, normal(0.5), normal(0.5)};
  Mlp serial("m", options, in_f64);
  const Passes expected = forward_backward(serial, x, dy, training);
  run_ranks(1, [&](Communicator& tp) {
    Mlp part("m", options, in_f64);
    tensor_parallel(part, std::make_shared<Border>(tp));
    sequence_parallel(part, std::make_shared<SequenceBorder>(tp, T));
    const Passes out = forward_backward(part, as_rows(x), as_rows(dy), training);
    CHECK(same_bits(out.y, as_rows(expected.y)));
    CHECK(same_bits(out.dx, as_rows(expected.dx)));
    CHECK(context().ledger.total_traffic().messages_sent == 0);
  });
  static_assert(sequence_parallel_collectives(true) == 8);
  static_assert(sequence_parallel_collectives(false) == 10);
}
