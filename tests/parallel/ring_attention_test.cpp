#include "yotta/parallel/ring_attention.hpp"

#include <doctest/doctest.h>

#include <mutex>

#include "nn/gradient_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/context_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 2, H = 4, d = 6;

struct Inputs {
  Tensor q, k, v, dout;  // (B, T, H, d), (B, T, Hkv, d) twice, (B, T, H, d)
};
Inputs inputs(int64_t T, int64_t Hkv, DType dtype = DType::f64) {
  return {random_tensor({B, T, H, d}, "q", dtype), random_tensor({B, T, Hkv, d}, "k", dtype),
          random_tensor({B, T, Hkv, d}, "v", dtype), random_tensor({B, T, H, d}, "dout", dtype)};
}

struct Outcome {
  Tensor o, log_sum_exp, dq, dk, dv;
};
Outcome serial(const Inputs& x) {
  const FlashAttention out = flash_attention(x.q, x.k, x.v);
  const AttentionGradients g = flash_attention_backward(x.dout, x.q, x.k, x.v, out);
  return {out.o, out.log_sum_exp, g.dq, g.dk, g.dv};
}

// The same on `ranks` ranks, put together again.
Outcome on_ring(const Inputs& x, int ranks, ChunkOrder order, const RunOptions& options = {}) {
  std::vector<Tensor> o, dq, dk, dv, L;
  for (std::vector<Tensor>* each : {&o, &dq, &dk, &dv, &L})
    each->resize(static_cast<size_t>(ranks));
  run_ranks(
      ranks,
      [&](Communicator& cp) {
        const auto mine = [&](const Tensor& t) { return context_shard(t, cp, order); };
        const Tensor q = mine(x.q), k = mine(x.k), v = mine(x.v);
        const FlashAttention out = ring_attention(q, k, v, cp, order);
        const AttentionGradients g = ring_attention_backward(mine(x.dout), q, k, v, out, cp, order);
        const auto r = static_cast<size_t>(cp.rank());
        // log-sum-exp (B, H, T/cp) as (B H, T/cp), so that its tokens are dim 1
        o[r] = out.o, L[r] = out.log_sum_exp.reshape({B * H, -1});
        dq[r] = g.dq, dk[r] = g.dk, dv[r] = g.dv;
      },
      options);
  return {context_unshard(o, order), context_unshard(L, order), context_unshard(dq, order),
          context_unshard(dk, order), context_unshard(dv, order)};
}

double difference(const Outcome& a, const Outcome& b) {
  return std::max({largest_difference(a.o, b.o),
                   largest_difference(a.log_sum_exp, b.log_sum_exp.reshape(a.log_sum_exp.shape())),
                   largest_difference(a.dq, b.dq), largest_difference(a.dk, b.dk),
                   largest_difference(a.dv, b.dv)});
}

// Each rank's ledger after one forward and one backward pass.
struct Spent {
  double flops = 0, backward_flops = 0;
  Traffic forward, backward;
  int64_t peak = 0;  // of the forward pass, beyond q, k and v
};
std::vector<Spent> spent(int64_t T, int64_t Hkv, int ranks, ChunkOrder order) {
  std::vector<Spent> all(static_cast<size_t>(ranks));
  const Inputs x = inputs(T, Hkv, DType::f32);
  run_ranks(ranks, [&](Communicator& cp) {
    const auto mine = [&](const Tensor& t) { return context_shard(t, cp, order); };
    const Tensor q = mine(x.q), k = mine(x.k), v = mine(x.v), dout = mine(x.dout);
    Ledger& ledger = context().ledger;
    Spent& count = all[static_cast<size_t>(cp.rank())];
    cp.barrier();
    ledger.reset();
    const int64_t before = ledger.memory()->live();
    const FlashAttention out = ring_attention(q, k, v, cp, order);
    count.peak = ledger.memory()->peak() - before;
    count.forward = ledger.traffic("send");
    ring_attention_backward(dout, q, k, v, out, cp, order);
    count.backward = ledger.traffic("send");
    count.flops = ledger.op("flash_attention").flops;
    count.backward_flops = ledger.op("flash_attention_backward").flops;
  });
  return all;
}

}  // namespace

TEST_CASE(
    "outputs and gradients equal the single rank's: 1 to 8 ranks, both orders, grouped or not") {
  for (const int64_t Hkv : {1, 2, 4}) {
    const Inputs x = inputs(48, Hkv);
    const Outcome expected = serial(x);
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const ChunkOrder order : {ChunkOrder::zigzag, ChunkOrder::contiguous}) {
        CAPTURE(Hkv);
        CAPTURE(ranks);
        CHECK(difference(on_ring(x, ranks, order), expected) <= 1e-12);
      }
  }
}

TEST_CASE("chunks longer than a tile, chunks of one token, f32, sends that wait") {
  const Inputs longer = inputs(4 * 300, 2), tiny = inputs(6, 4);
  CHECK(difference(on_ring(longer, 2, ChunkOrder::zigzag), serial(longer)) <= 1e-12);
  RunOptions strict;
  strict.buffered_sends = false;
  strict.check_buffers = true;
  CHECK(difference(on_ring(tiny, 3, ChunkOrder::zigzag, strict), serial(tiny)) <= 1e-13);
  const Inputs single = inputs(160, 2, DType::f32);
  CHECK(difference(on_ring(single, 4, ChunkOrder::zigzag), serial(single)) <= 3e-5);
}

TEST_CASE("large scores do not overflow, whichever rank holds them") {
  const Inputs x = inputs(48, 4);
  for (const int64_t at : {0, 11, 30, 47}) {
    Inputs y = x;
    y.k = x.k.clone();
    for (int64_t b = 0; b < B; ++b)
      y.k.reshape({B * 48, H * d}).rows(b * 48 + at, b * 48 + at + 1).fill(3000);
    CHECK(difference(on_ring(y, 4, ChunkOrder::zigzag), serial(y)) <= 1e-9);
  }
}

TEST_CASE("one rank is the serial case, to the last bit, with a communicator or without one") {
  const Inputs x = inputs(35, 2);  // any length
  const Outcome expected = serial(x);
  const FlashAttention out = ring_attention(x.q, x.k, x.v, {});
  CHECK(same_bits(out.o, expected.o));
  CHECK(same_bits(ring_attention_backward(x.dout, x.q, x.k, x.v, out, {}).dk, expected.dk));
  run_ranks(1, [&](Communicator& cp) {
    CHECK(same_bits(ring_attention(x.q, x.k, x.v, cp).o, expected.o));
    CHECK(context().ledger.total_traffic().messages_sent == 0);
    CHECK(context().ledger.op("attention_merge").calls == 0);
  });
}

TEST_CASE(
    "every chunk is on one rank; zig-zag gives every rank the same work, contiguous 2cp-1 times") {
  for (const int ranks : {1, 2, 3, 4, 8, 16}) {
    std::vector<int> holders(static_cast<size_t>(chunks_each(ranks) * ranks));
    for (int rank = 0; rank < ranks; ++rank)
      for (int64_t i = 0; i < chunks_each(ranks); ++i)
        ++holders[static_cast<size_t>(chunk_of(ranks, rank, i))];
    for (const int count : holders) CHECK(count == 1);
    const int64_t T = 96;
    int64_t zigzag = 0, contiguous = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(ring_twice_seen(ranks, rank, T, ChunkOrder::zigzag) == T * T / ranks);
      zigzag += ring_twice_seen(ranks, rank, T, ChunkOrder::zigzag);
      contiguous += ring_twice_seen(ranks, rank, T, ChunkOrder::contiguous);
      CHECK(ring_twice_seen(ranks, rank, T, ChunkOrder::contiguous) ==
            (2 * rank + 1) * ring_twice_seen(ranks, 0, T, ChunkOrder::contiguous));
    }
    CHECK(zigzag == T * T);
    CHECK(contiguous == T * T);
  }
}

TEST_CASE("counted FLOPs, messages and bytes of every rank are the formulas'") {
  const int64_t T = 96, Hkv = 2;
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const ChunkOrder order : {ChunkOrder::zigzag, ChunkOrder::contiguous}) {
      const std::vector<Spent> all = spent(T, Hkv, ranks, order);
      const int64_t bytes = 2 * B * (T / ranks) * Hkv * d * 4;  // of k and v
      for (int rank = 0; rank < ranks; ++rank) {
        const Spent& mine = all[static_cast<size_t>(rank)];
        const int64_t seen = ring_twice_seen(ranks, rank, T, order);
        CHECK(mine.flops == static_cast<double>(2 * B * H * d * seen));
        CHECK(mine.backward_flops == static_cast<double>(5 * B * H * d * seen));
        CHECK(mine.forward.messages_sent == ring_messages(ranks));
        CHECK(mine.forward.bytes_sent == ring_bytes(ranks, bytes));
        CHECK(mine.forward.bytes_received == ring_bytes(ranks, bytes));
        CHECK(mine.backward.messages_sent - mine.forward.messages_sent ==
              ring_backward_messages(ranks));
        CHECK(mine.backward.bytes_sent - mine.forward.bytes_sent ==
              ring_backward_bytes(ranks, bytes));
      }
    }
}

TEST_CASE("memory is O(T/cp): two pairs of k and v and the outputs, whatever cp is") {
  const int64_t Hkv = 2, each = 24;  // tokens on a rank
  for (const int ranks : {2, 3, 4, 8}) {
    const int64_t pair = 2 * B * each * Hkv * d * 4, o = B * each * H * (d + 1) * 4;
    for (const Spent& mine : spent(each * ranks, Hkv, ranks, ChunkOrder::zigzag))
      CHECK(mine.peak == ring_peak_bytes(ranks, pair, o));
  }
}

TEST_CASE("lengths that do not cut in two are refused, with those that do") {
  std::string text;
  std::mutex lock;
  run_ranks(2, [&](Communicator& cp) {
    const Tensor x = Tensor::zeros({1, 7, 2, 4});
    const std::string said = message_of([&] { ring_attention(x, x, x, cp); });
    const std::lock_guard guard(lock);
    text = said;
  });
  CHECK(contains(text, "7 tokens on each of 2 ranks cannot be cut into 2 equal chunks"));
  CHECK(contains(text, "a multiple of 4: 16 for instance"));
  CHECK(contains(text, "ring_attention_test.cpp:"));
}

TEST_CASE("bf16 goes round in 2 bytes per number; what is summed is f32, rounded once a hop") {
  const int64_t T = 48, Hkv = 2;
  const Inputs x = inputs(T, Hkv, DType::bf16);
  const Outcome whole = serial(x);
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const Outcome found = on_ring(x, ranks, ChunkOrder::zigzag);
    for (const Tensor* each : {&found.o, &found.dq, &found.dk, &found.dv})
      CHECK(each->dtype() == DType::bf16);
    CHECK(found.log_sum_exp.dtype() == DType::f32);
    // Of o and dq the f32 sums differ by their order alone: now and then by one bf16, 2^-7.
    CHECK(largest_difference(found.o, whole.o) <= 0x1p-7);
    CHECK(largest_difference(found.dq, whole.dq) <= 0x1p-6);  // also o is read, rounded
    // dk and dv are rounded at each hop, 2^-8 of a sum that was larger on its way.
    CHECK(largest_difference(found.dk, whole.dk) <= ranks * 0x1p-6);
    CHECK(largest_difference(found.dv, whole.dv) <= ranks * 0x1p-6);
    run_ranks(ranks, [&](Communicator& cp) {
      const auto mine = [&](const Tensor& t) { return context_shard(t, cp); };
      const Tensor q = mine(x.q), k = mine(x.k), v = mine(x.v);
      const Ledger& ledger = context().ledger;
      const FlashAttention out = ring_attention(q, k, v, cp);
      const int64_t pair = k.nbytes() + v.nbytes(), forward = ledger.traffic("send").bytes_sent;
      CHECK(pair == 2 * B * (T / ranks) * Hkv * d * 2);
      CHECK(forward == ring_bytes(ranks, pair));
      ring_attention_backward(mine(x.dout), q, k, v, out, cp);
      CHECK(ledger.traffic("send").bytes_sent - forward == ring_backward_bytes(ranks, pair));
    });
  }
}
