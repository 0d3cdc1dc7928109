// What ring attention takes on a described machine: shapes only (Device::meta), the real code,
// virtual time.
#include <doctest/doctest.h>

#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/ring_attention.hpp"

using namespace yotta;

namespace {

constexpr int64_t B = 1, H = 4, Hkv = 2, d = 8;

struct RingTimes {
  double forward = 0, backward = 0;                   // of all ranks, s
  std::vector<double> forward_flops, backward_flops;  // by rank
};

// Ring attention on `each` tokens per rank, forward alone and forward and backward.
RingTimes times(const Cluster& cluster, int ranks, int64_t each, ChunkOrder order,
                DType dtype = DType::f32) {
  RingTimes out;
  for (const bool both : {false, true}) {
    const Timed run = run_on(cluster, ranks, [&](Communicator& cp) {
      const DeviceScope meta(Device::meta);
      const Tensor q = Tensor::empty({B, each, H, d}, dtype);
      const Tensor k = Tensor::empty({B, each, Hkv, d}, dtype);
      const FlashAttention kept = ring_attention(q, k, k, cp, order);
      if (both) ring_attention_backward(q, q, k, k, kept, cp, order);
    });
    (both ? out.backward : out.forward) = run.seconds();
    for (const RankReport& rank : run.reports)
      (both ? out.backward_flops : out.forward_flops).push_back(rank.ledger().total_flops());
  }
  out.backward -= out.forward;
  for (size_t i = 0; i < out.forward_flops.size(); ++i)
    out.backward_flops[i] -= out.forward_flops[i];
  return out;
}

double hop_seconds(int64_t each, double bandwidth) {
  return static_cast<double>(2 * B * each * Hkv * d * 4) / bandwidth;
}

constexpr double rate = 1e6;  // FLOP/s

bool equal(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

}  // namespace

TEST_CASE(
    "with the tokens that the formula asks for, only the hop that brings dk and dv home is seen") {
  const int64_t each = 32;
  for (const int ranks : {2, 3, 4, 8}) {
    // the bandwidth at which a hop takes just as long as a step
    const double bandwidth = rate * 4 * Hkv / (H * each);
    CHECK(ring_hidden_tokens(rate, bandwidth, 4, H, Hkv) == each);
    const RingTimes run = times(ideal(ranks, rate, bandwidth), ranks, each, ChunkOrder::zigzag);
    CAPTURE(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      CHECK(equal(run.forward, run.forward_flops[r] / rate));  // not a second of waiting
      CHECK(equal(run.backward, run.backward_flops[r] / rate + hop_seconds(each, bandwidth)));
    }
  }
}

TEST_CASE("with too slow a link each step takes as long as its hop") {
  const int64_t each = 32, n = each / 2;
  for (const int ranks : {2, 4, 8}) {
    const double bandwidth = rate * 4 * Hkv / (H * each) / 3;
    const RingTimes run = times(ideal(ranks, rate, bandwidth), ranks, each, ChunkOrder::zigzag);
    // the last step: two blocks of n x n, 4 d FLOPs a score, and two merges
    const double last = static_cast<double>(2 * (4 * B * H * d * n * n + B * H * n * (3 * d + 8)));
    CHECK(equal(run.forward, (ranks - 1) * hop_seconds(each, bandwidth) + last / rate));
    CHECK(run.forward > run.forward_flops[0] / rate);
  }
}

TEST_CASE(
    "contiguous parts: the last rank works 2cp-1 times as long as the first, and all wait for it") {
  const int64_t each = 64;
  for (const int ranks : {2, 4, 8}) {
    const Cluster fast = ideal(ranks, rate);
    const RingTimes contiguous = times(fast, ranks, each, ChunkOrder::contiguous);
    const RingTimes zigzag = times(fast, ranks, each, ChunkOrder::zigzag);
    const auto last = static_cast<size_t>(ranks - 1);
    CHECK(equal(contiguous.forward, contiguous.forward_flops[last] / rate));
    // Against zig-zag, (2 cp - 1) / cp: nearly twice as slow for many ranks. Merges blur it by 2 in
    // 100.
    const double slower = (2.0 * ranks - 1) / ranks;
    CHECK(std::abs(contiguous.forward / zigzag.forward / slower - 1) <= 0.02);
    CHECK(std::abs(contiguous.forward_flops[last] / contiguous.forward_flops[0] / (2 * ranks - 1) -
                   1) <= 0.1);
  }
}

// 405B with tp 8: 16 query heads and 1 key head a rank, of 128 numbers, in bf16; 400 Gb/s a GPU.
TEST_CASE("Llama 3 at 131,072 tokens: 8192 a rank hide 50 GB/s, 1024 would not") {
  const double needed = ring_hidden_tokens(989.4e12, 50e9, 2, 16, 1);
  CHECK(needed == doctest::Approx(2473.5));
  const Cluster network{"h100 over network", chip_named("h100"), {{"all", 16, 5e-6, 1 / 50e9}}, {}};
  for (const int64_t each : {8192, 1024}) {
    const Timed run = run_on(network, 16, [&](Communicator& cp) {
      const DeviceScope meta(Device::meta);
      const Tensor q = Tensor::empty({1, each, 16, 128}, DType::bf16);
      const Tensor k = Tensor::empty({1, each, 1, 128}, DType::bf16);
      ring_attention(q, k, k, cp);
    });
    CAPTURE(each);
    CAPTURE(run.busy_share(15));
    CHECK((run.busy_share(15) > 0.99) == (static_cast<double>(each) > needed));
  }
}
