#include "yotta/parallel/ulysses.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/context_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
constexpr int64_t B = 2, T = 48, H = 24, d = 4;
}

TEST_CASE("heads and tokens change places, and back") {
  const Tensor x = random_tensor({B, T, H, d}, "x");
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const ChunkOrder order : {ChunkOrder::zigzag, ChunkOrder::contiguous})
      run_ranks(ranks, [&](Communicator& cp) {
        const Tensor mine = context_shard(x, cp, order);
        const Tensor heads = to_heads(mine, cp, order);
        const int64_t h = H / ranks;
        CHECK(same_bits(heads, narrow(x, 2, cp.rank() * h, h)));
        CHECK(same_bits(to_tokens(heads, cp, order), mine));
      });
}

TEST_CASE("outputs and gradients equal the single rank's, and bytes the formula") {
  for (const int64_t Hkv : {8, 24}) {
    const Tensor q = random_tensor({B, T, H, d}, "q"), dout = random_tensor({B, T, H, d}, "dout");
    const Tensor k = random_tensor({B, T, Hkv, d}, "k"), v = random_tensor({B, T, Hkv, d}, "v");
    const FlashAttention whole = flash_attention(q, k, v);
    const AttentionGradients expected = flash_attention_backward(dout, q, k, v, whole);
    for (const int ranks : {1, 2, 4, 8})
      run_ranks(ranks, [&](Communicator& cp) {
        const auto mine = [&](const Tensor& t) { return context_shard(t, cp); };
        UlyssesSaved saved;
        const Tensor o = ulysses_attention(mine(q), mine(k), mine(v), cp, saved);
        const int64_t sent = context().ledger.traffic("ulysses").bytes_sent;
        const AttentionGradients g = ulysses_attention_backward(mine(dout), saved, cp);
        CHECK(largest_difference(o, mine(whole.o)) <= 1e-13);
        CHECK(largest_difference(g.dq, mine(expected.dq)) <= 1e-13);
        CHECK(largest_difference(g.dk, mine(expected.dk)) <= 1e-13);
        CHECK(largest_difference(g.dv, mine(expected.dv)) <= 1e-13);
        CHECK(sent == ulysses_bytes(ranks, q.nbytes(), k.nbytes()));
        CHECK(context().ledger.traffic("ulysses").bytes_sent == 2 * sent);
      });
  }
}

TEST_CASE("heads that do not divide are refused, with what would work") {
  run_ranks(4, [&](Communicator& cp) {
    const Tensor x = Tensor::zeros({1, 2, 6, 4});
    const std::string text = message_of([&] { to_heads(x, cp); });
    CHECK(contains(text, "6 heads do not divide among 4 ranks of cp; 4 would, or ring attention"));
    CHECK(contains(text, "ulysses_test.cpp:"));
  });
}

TEST_CASE("bf16 is exchanged in 2 bytes per number, and gives the serial bits") {
  const Tensor q = random_tensor({B, T, H, d}, "q", DType::bf16),
               k = random_tensor({B, T, 8, d}, "k", DType::bf16),
               dout = random_tensor({B, T, H, d}, "dout", DType::bf16);
  const FlashAttention whole = flash_attention(q, k, k);
  const AttentionGradients expected = flash_attention_backward(dout, q, k, k, whole);
  for (const int ranks : {2, 4})
    run_ranks(ranks, [&](Communicator& cp) {
      const auto mine = [&](const Tensor& t) { return context_shard(t, cp); };
      UlyssesSaved saved;
      CHECK(same_bits(ulysses_attention(mine(q), mine(k), mine(k), cp, saved), mine(whole.o)));
      const int64_t sent = context().ledger.traffic("ulysses").bytes_sent;
      CHECK(sent == ulysses_bytes(ranks, 2 * q.numel(), 2 * k.numel()));
      const AttentionGradients g = ulysses_attention_backward(mine(dout), saved, cp);
      CHECK(same_bits(g.dq, mine(expected.dq)));
      CHECK(same_bits(g.dk, mine(expected.dk)));
      CHECK(context().ledger.traffic("ulysses").bytes_sent == 2 * sent);
    });
}
