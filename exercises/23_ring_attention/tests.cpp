// The graded cases of exercise 23: chunks, blocks, merging, and ring attention forward and backward
// on 1 to 8 ranks. All in f64, so that what is left of a difference is a mistake.
#include <atomic>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/random.hpp"
#include "yotta/parallel/ring_attention.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Order;
using exercise::run;
using exercise::solution;

namespace {

constexpr int64_t T = 48, B = 2, H = 4, d = 4;  // T divides by 2 p for all p here
constexpr int all_ranks[] = {4, 1, 2, 3, 8};

struct Inputs {
  Tensor q, k, v, dout;  // (B, T, H, d), (B, T, Hkv, d) twice, (B, T, H, d)
};
Inputs inputs(int64_t Hkv) {
  const auto numbers = [](Shape shape, const char* name) {
    Tensor x = Tensor::empty(std::move(shape), DType::f64);
    const Random random(exercise::seed(23), name);
    for (uint64_t i = 0; double& value : x.span<double>()) value = random.normal(i++);
    return x;
  };
  return {numbers({B, T, H, d}, "q"), numbers({B, T, Hkv, d}, "k"), numbers({B, T, Hkv, d}, "v"),
          numbers({B, T, H, d}, "dout")};
}

// A rank's i-th chunk: as 23.1 deals them out, or side by side.
int64_t chunk_at(int p, int rank, int64_t i, Order order) {
  return order == Order::zigzag ? solution.chunk_of(p, rank, i) : chunks_each(p) * rank + i;
}

// The columns of a rank's chunks.
Tensor shard(const Tensor& x, int p, int rank, Order order = Order::zigzag) {
  const int64_t chunks = p == 1 ? 1 : 2, n = T / (chunks * p);
  std::vector<Tensor> held;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t chunk = chunk_at(p, rank, i, order);
    if (chunk < 0 || chunk >= chunks * p)
      fail(Where::current(), "chunk_of({}, {}, {}) is {}, and there are {} chunks", p, rank, i,
           chunk, chunks * p);
    held.push_back(narrow(x, 1, chunk * n, n));
  }
  return cat(held, 1);
}

// Twice the keys that rank's queries see, in units of a chunk's square.
int64_t work_of(int p, int rank) {
  const int64_t chunks = p == 1 ? 1 : 2;
  int64_t twice = 0;
  for (int64_t i = 0; i < chunks; ++i) twice += 2 * solution.chunk_of(p, rank, i) + 1;
  return twice;
}

// What a rank gets if it averages the arriving parts, each with what it has so far or all at the
// end, or if it takes the keys that are here for those of the rank on the other side.
enum class Mistaken { mean_in_turn, mean_at_the_end, other_side };
Numbers mistaken(const Inputs& x, int p, int rank, Mistaken how) {
  const int64_t chunks = p == 1 ? 1 : 2, n = T / (chunks * p);
  std::vector<Tensor> sums;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t query = solution.chunk_of(p, rank, i);
    FlashAttention sum;
    int64_t parts = 0;
    for (int step = 0; step < p; ++step)
      for (int64_t j = 0; j < chunks; ++j) {
        const int64_t key = solution.chunk_of(p, wrap(rank - step, p), j);
        const int64_t taken_for =
            how == Mistaken::other_side ? solution.chunk_of(p, wrap(rank + step, p), j) : key;
        if (taken_for > query) continue;
        const FlashAttention part =
            attention_block(x.q, x.k, x.v, {query * n, key * n, n, (query - taken_for) * n});
        if (parts++ == 0 || how == Mistaken::other_side) {
          merge(sum, part);
          continue;
        }
        sum.o = add(sum.o, part.o);
        if (how == Mistaken::mean_in_turn) sum.o = scale(sum.o, 0.5);
      }
    sums.push_back(how == Mistaken::mean_at_the_end ? scale(sum.o, 1.0 / static_cast<double>(parts))
                                                    : sum.o);
  }
  return cat(sums, 1).values();
}

// dk or dv with the gradients of this rank's own queries only.
AttentionGradients own_only(const Inputs& x, const FlashAttention& whole, int p, int rank) {
  const int64_t n = T / (p == 1 ? 1 : 2 * p), chunks = p == 1 ? 1 : 2;
  AttentionGradients found{Tensor::zeros(x.q.shape(), DType::f64),
                           Tensor::zeros(x.k.shape(), DType::f64),
                           Tensor::zeros(x.v.shape(), DType::f64)};
  for (int64_t i = 0; i < chunks; ++i)
    for (int64_t j = 0; j < chunks; ++j) {
      const int64_t query = solution.chunk_of(p, rank, i), key = solution.chunk_of(p, rank, j);
      attention_block_backward(x.dout, x.q, x.k, x.v, whole,
                               {query * n, key * n, n, (query - key) * n}, found);
    }
  return found;
}

// For a message: what a rank holds.
const char* of_order(Order order) {
  return order == Order::zigzag ? ""
                                : " with contiguous chunks, 2 r and 2 r + 1 on rank r, which "
                                  "ring.block(i, from, j) takes into account";
}

// What each of p ranks makes of its part.
std::vector<FlashAttention> forward_on(const Inputs& x, int p, Order order) {
  std::vector<FlashAttention> left(static_cast<size_t>(p));
  const std::string text = exercise::error_of([&] {
    run(p, [&](const Communicator& cp) {
      const auto mine = [&](const Tensor& t) { return shard(t, p, cp.rank(), order); };
      left[static_cast<size_t>(cp.rank())] =
          solution.forward(mine(x.q), mine(x.k), mine(x.v), cp, order);
    });
  });
  const bool unfilled = text.find("(undefined)") != std::string::npos;
  expect(text.empty(),
         text + (unfilled ? "\n    `sums` has an entry for each chunk of queries on this rank, and "
                            "one of them is still empty at the end: merge each part into sums[i], "
                            "for every i below ring.chunks()"
                          : ""));
  return left;
}

// The forward pass on p ranks, each rank's output against its columns of the serial one.
void expect_forward(const Inputs& x, int p, Order order = Order::zigzag) {
  const FlashAttention whole = flash_attention(x.q, x.k, x.v);
  const std::vector<FlashAttention> left = forward_on(x, p, order);
  for (int rank = 0; rank < p; ++rank) {
    const FlashAttention& out = left[static_cast<size_t>(rank)];
    Clues clues;
    clues.what = fmt::format("o of rank {} of {}{}", rank, p, of_order(order));
    if (p > 1 && order == Order::zigzag)
      for (const Mistaken how : {Mistaken::mean_in_turn, Mistaken::mean_at_the_end})
        clues.suspects.push_back({"the mean of the parts' outputs: the merge lacks log-sum-exp",
                                  mistaken(x, p, rank, how)});
    if (p > 2 && order == Order::zigzag)
      clues.suspects.push_back(
          {"what the mask gives if the keys here are taken for rank + step's: they come from the "
           "left, ring.source(step)",
           mistaken(x, p, rank, Mistaken::other_side)});
    expect(compare(out.o, shard(whole.o, p, rank, order), 1e-11, clues));
    clues = {};
    clues.what = fmt::format("log-sum-exp of rank {} of {}", rank, p);
    const Tensor L = whole.log_sum_exp.reshape({B * H, T});
    expect(
        compare(out.log_sum_exp.reshape({B * H, T / p}), shard(L, p, rank, order), 1e-11, clues));
  }
}

void expect_backward(const Inputs& x, int p, Order order = Order::zigzag) {
  const FlashAttention whole = flash_attention(x.q, x.k, x.v);
  const AttentionGradients expected = flash_attention_backward(x.dout, x.q, x.k, x.v, whole);
  const Tensor flat_L = whole.log_sum_exp.reshape({B * H, T});
  std::vector<AttentionGradients> left(static_cast<size_t>(p));
  run(p, [&](const Communicator& cp) {
    const auto mine = [&](const Tensor& t) { return shard(t, p, cp.rank(), order); };
    const FlashAttention saved{mine(whole.o), mine(flat_L).reshape({B, H, T / p})};
    left[static_cast<size_t>(cp.rank())] =
        solution.backward(mine(x.dout), mine(x.q), mine(x.k), mine(x.v), saved, cp, order);
  });
  for (int rank = 0; rank < p; ++rank) {
    const AttentionGradients& got = left[static_cast<size_t>(rank)];
    const AttentionGradients own = own_only(x, whole, p, rank);
    const auto check = [&](const char* name, const Tensor& actual, const Tensor& all,
                           const Tensor& from_own) {
      Clues clues;
      clues.what = fmt::format("{} of rank {} of {}{}", name, rank, p, of_order(order));
      if (order == Order::zigzag)
        clues.suspects = {
            {"what this rank's own queries give alone: the sum that travels round the "
             "ring did not come home",
             shard(from_own, p, rank).values()}};
      expect(compare(actual, shard(all, p, rank, order), 1e-11, clues));
    };
    check("dq", got.dq, expected.dq, own.dq);
    check("dk", got.dk, expected.dk, own.dk);
    check("dv", got.dv, expected.dv, own.dv);
  }
}

// What a rank sent, and how many blocks it computed, against what is needed: cp - 1 hops of `pairs`
// pairs, and the blocks whose keys the queries see at least some of.
void expect_no_waste(const Ledger& ledger, int p, int rank, int64_t pair_bytes, int64_t pairs,
                     const char* op) {
  const int64_t sent = ledger.total_traffic().bytes_sent, needed = pairs * (p - 1) * pair_bytes;
  if (sent > needed)
    fail(
        Where::current(),
        "right, but rank {} of {} sent {:.3g} pairs of tensors, and {} would do: in the last of {} "
        "steps all keys have been everywhere, and after {} hops every gradient is home",
        rank, p, static_cast<double>(sent) / static_cast<double>(pair_bytes), pairs * (p - 1), p,
        p - 1);
  int64_t seen = 0;
  for (int64_t i = 0; i < (p == 1 ? 1 : 2); ++i) seen += solution.chunk_of(p, rank, i) + 1;
  const int64_t computed = ledger.op(op).calls;
  if (computed > seen)
    fail(Where::current(),
         "right, but rank {} of {} computed {} blocks, and {} would do: a block whose `ahead` is "
         "negative has only keys that the mask hides from its queries. Skip it",
         rank, p, computed, seen);
}

// The most bytes that a rank holds beyond what it was given.
template <class Body>
int64_t most_held(int p, Body body) {
  std::atomic<int64_t> most = 0;
  const Inputs x = inputs(H);
  run(p, [&](const Communicator& cp) {
    const auto mine = [&](const Tensor& t) { return shard(t, p, cp.rank()); };
    const Inputs own = {mine(x.q), mine(x.k), mine(x.v), mine(x.dout)};
    const FlashAttention saved{mine(x.q), Tensor::zeros({B, H, T / p}, DType::f64)};
    MemoryCount& memory = *context().ledger.memory();
    memory.reset_peaks();
    const int64_t before = memory.live();
    body(own, saved, cp);
    most = std::max<int64_t>(most, memory.peak() - before);
  });
  return most;
}

// Visitors' keys and values go on when they have been used. Two pairs more than the library holds
// are borne with.
void expect_held(int64_t yours, int64_t needed, int p) {
  const int64_t pair = 2 * B * (T / p) * H * d * 8;
  const auto pairs = [&](int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(pair);
  };
  expect(yours <= needed + 2 * pair,
         fmt::format("right, but on {} ranks one holds {:.1f} pairs of tensors at once, and {:.1f} "
                     "would do: with all visitors' it holds the whole sequence, and a rank's share "
                     "of the memory is not 1/cp. Keep the pair that is here and the one that "
                     "comes in, no more",
                     p, pairs(yours), pairs(needed)));
}

// body(cp) on a described machine where a hop of a pair takes as long as a step of the forward
// pass, so that a ring that computes and hops at once need not wait. x is what each rank holds,
// without numbers.
struct Clocked {
  double seconds, computing, hop;
};
template <class Body>
Clocked clocked(Body body) {
  const int p = 4;
  const double rate = 1e6, bandwidth = rate * 4 / 32;
  double pair_bytes = 0;
  Timed timed;
  try {
    timed = run_on(ideal(p, rate, bandwidth), p, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      const Tensor x = Tensor::empty({1, 32, H, d});
      pair_bytes = static_cast<double>(2 * x.nbytes());
      body(x, Communicator(world));
    });
  } catch (const RankFailed& error) {
    exercise::rethrow_not_done(error.cause());
    throw;
  }
  Clocked found{timed.seconds(), 0, pair_bytes / bandwidth};
  for (const RankReport& rank : timed.reports)
    found.computing = std::max(found.computing, rank.ledger().total_flops() / rate);
  return found;
}

}  // namespace

TEST_CASE("23.1: every chunk is on one rank, and chunk 0 is rank 0's") {
  for (const int p : all_ranks) {
    const int64_t chunks = p == 1 ? 1 : 2;
    std::vector<std::vector<int>> holders(static_cast<size_t>(chunks * p));
    for (int rank = 0; rank < p; ++rank)
      for (int64_t i = 0; i < chunks; ++i) {
        const int64_t chunk = solution.chunk_of(p, rank, i);
        expect(chunk >= 0 && chunk < chunks * p,
               fmt::format("chunk_of({}, {}, {}) is {}; the chunks are 0 to {}", p, rank, i, chunk,
                           chunks * p - 1));
        holders[static_cast<size_t>(chunk)].push_back(rank);
      }
    for (size_t chunk = 0; chunk < holders.size(); ++chunk)
      expect(holders[chunk].size() == 1,
             holders[chunk].empty()
                 ? fmt::format("with {} ranks nobody holds chunk {}", p, chunk)
                 : fmt::format("with {} ranks both rank {} and rank {} hold chunk {}", p,
                               holders[chunk][0], holders[chunk][1], chunk));
    expect(solution.chunk_of(p, 0, 0) == 0, "rank 0's first chunk is chunk 0");
  }
}

TEST_CASE("23.1: contiguous: the chunks of a rank follow each other") {
  for (const int p : all_ranks)
    for (int rank = 0; rank < p; ++rank)
      for (int64_t i = 0; i < chunks_each(p); ++i) {
        const int64_t chunk = solution.contiguous_chunk_of(p, rank, i),
                      right = chunks_each(p) * rank + i;
        expect(chunk == right,
               fmt::format("contiguous, {} ranks with {} each: rank {}'s chunk {} is {}, not {}", p,
                           chunks_each(p), rank, i, right, chunk));
      }
}

TEST_CASE("23.1: every rank has the same work") {
  for (const int p : all_ranks)
    for (int rank = 1; rank < p; ++rank) {
      const int64_t first = work_of(p, 0), mine = work_of(p, rank), last = work_of(p, p - 1);
      expect(mine == first,
             fmt::format("with {} ranks, rank {} did {:.3g} times rank 0's work: chunk c sees c "
                         "chunks of keys and half of its own, so late chunks cost more. Give each "
                         "rank an early and a late one",
                         p, p - 1, static_cast<double>(last) / static_cast<double>(first)));
    }
}

TEST_CASE("23.2: a block knows where its queries and keys stand in the whole sequence") {
  const int64_t n = 6;
  for (const int p : {4, 1, 2, 3})
    for (int rank = 0; rank < p; ++rank)
      for (int from = 0; from < p; ++from)
        for (int64_t i = 0; i < (p == 1 ? 1 : 2); ++i)
          for (int64_t j = 0; j < (p == 1 ? 1 : 2); ++j) {
            const AttentionBlock block = solution.block(p, rank, n, i, from, j, Order::zigzag);
            const std::string name = fmt::format(
                "rank {} of {}, its {} chunk of queries, the {} chunk of keys of rank {}", rank, p,
                i == 0 ? "first" : "second", j == 0 ? "first" : "second", from);
            expect(
                block.query == i * n && block.key == j * n && block.length == n,
                fmt::format("{}: columns {} and {}, length {}; here they begin at {} and {}, and "
                            "a chunk has {} tokens",
                            name, block.query, block.key, block.length, i * n, j * n, n));
            const int64_t ahead =
                (solution.chunk_of(p, rank, i) - solution.chunk_of(p, from, j)) * n;
            const bool is_local = block.ahead == (i - j) * n;
            expect(block.ahead == ahead,
                   fmt::format("{}: the queries stand {} positions ahead, not {}{}", name, ahead,
                               block.ahead,
                               is_local ? ". That is where they stand on this rank, a local mask: "
                                          "add the chunk's global offset, chunk_of(...) * n"
                                        : ""));
          }
}

TEST_CASE("23.2: in contiguous order too") {
  const int64_t n = 6;
  for (const int p : {4, 1, 2, 3})
    for (int rank = 0; rank < p; ++rank)
      for (int from = 0; from < p; ++from)
        for (int64_t i = 0; i < (p == 1 ? 1 : 2); ++i) {
          const AttentionBlock block = solution.block(p, rank, n, i, from, 0, Order::contiguous);
          const int64_t ahead =
              (chunk_at(p, rank, i, Order::contiguous) - chunk_at(p, from, 0, Order::contiguous)) *
              n;
          expect(block.ahead == ahead,
                 fmt::format("contiguous chunks, {} ranks: chunk {} of rank {} stands {} positions "
                             "ahead of chunk 0 of rank {}, not {}: hand `order` on to chunk_of",
                             p, i, rank, ahead, from, block.ahead));
        }
}

TEST_CASE("23.3: the outputs are the single rank's, on 1 to 8 ranks") {
  for (const int p : all_ranks) expect_forward(inputs(H), p);
  expect_forward(inputs(2), 4);  // grouped queries
}

TEST_CASE("23.3: contiguous chunks, where the first rank sees little and the last one all") {
  for (const int p : all_ranks) expect_forward(inputs(H), p, Order::contiguous);
}

TEST_CASE("23.3: large scores, whichever rank holds them") {
  for (const int64_t at : {0, 20, 40}) {
    Inputs x = inputs(H);
    for (int64_t b = 0; b < B; ++b)
      x.k.reshape({B * T, H * d}).rows(b * T + at, b * T + at + 1).fill(3000);
    expect_forward(x, 4);
  }
}

TEST_CASE("23.3: keys travel while the last ones are computed with") {
  const Clocked ring = clocked([](const Tensor& x, const Communicator& cp) {
    solution.forward(x, x, x, cp, Order::zigzag);
  });
  expect(ring.seconds <= ring.computing * (1 + 1e-9),
         fmt::format("right, but nothing overlapped: {:.4g} s in all, {:.4g} s of them computing. "
                     "Start the hop, compute, and only then wait for what arrives",
                     ring.seconds, ring.computing));
}

TEST_CASE("23.3: cp - 1 hops, and no block that the mask hides whole") {
  const Inputs x = inputs(H);
  for (const int p : all_ranks)
    run(p, [&](const Communicator& cp) {
      const auto mine = [&](const Tensor& t) { return shard(t, p, cp.rank()); };
      const Tensor k = mine(x.k);
      solution.forward(mine(x.q), k, mine(x.v), cp, Order::zigzag);
      expect_no_waste(context().ledger, p, cp.rank(), 2 * k.nbytes(), 1, "flash_attention");
    });
  CHECK(true);  // nothing was thrown
}

TEST_CASE("23.3: a rank holds one visitor's keys and values at a time") {
  const int p = 8;
  const auto held = [&](auto forward) {
    return most_held(
        p, [&](const Inputs& x, const FlashAttention&, const Communicator& cp) { forward(x, cp); });
  };
  expect_held(
      held([](const Inputs& x, const Communicator& cp) {
        solution.forward(x.q, x.k, x.v, cp, Order::zigzag);
      }),
      held([](const Inputs& x, const Communicator& cp) { ring_attention(x.q, x.k, x.v, cp); }), p);
}

TEST_CASE("23.4: the gradients are the single rank's, on 1 to 8 ranks") {
  for (const int p : all_ranks) expect_backward(inputs(H), p);
  expect_backward(inputs(2), 4);
}

TEST_CASE("23.4: contiguous chunks") {
  for (const int p : all_ranks) expect_backward(inputs(H), p, Order::contiguous);
}

TEST_CASE("23.4: a rank holds one visitor's tensors at a time") {
  const int p = 8;
  expect_held(most_held(p,
                        [](const Inputs& x, const FlashAttention& saved, const Communicator& cp) {
                          solution.backward(x.dout, x.q, x.k, x.v, saved, cp, Order::zigzag);
                        }),
              most_held(p,
                        [](const Inputs& x, const FlashAttention& saved, const Communicator& cp) {
                          ring_attention_backward(x.dout, x.q, x.k, x.v, saved, cp);
                        }),
              p);
}

TEST_CASE("23.4: keys and gradients travel while others are computed with") {
  const Clocked ring = clocked([](const Tensor& x, const Communicator& cp) {
    const FlashAttention saved{x, Tensor::empty({1, H, x.dim(1)})};
    solution.backward(x, x, x, x, saved, cp, Order::zigzag);
  });
  const double least = ring.computing + ring.hop;
  expect(ring.seconds <= least * (1 + 1e-9),
         fmt::format("right, but not all hops overlapped: {:.4g} s in all, {:.4g} s of them "
                     "computing, and {:.4g} s for the last hop, which nothing is left to hide. "
                     "Wait for a hop only when a step needs what it brings: keys after computing, "
                     "the left neighbour's gradients one step after they were sent",
                     ring.seconds, ring.computing, ring.hop));
}

TEST_CASE("23.4: 2 (cp - 1) hops, and no block that the mask hides whole") {
  const Inputs x = inputs(H);
  for (const int p : all_ranks)
    run(p, [&](const Communicator& cp) {
      const auto mine = [&](const Tensor& t) { return shard(t, p, cp.rank()); };
      const Tensor k = mine(x.k);
      const FlashAttention saved{mine(x.q), Tensor::zeros({B, H, T / p}, DType::f64)};
      solution.backward(mine(x.dout), mine(x.q), k, mine(x.v), saved, cp, Order::zigzag);
      expect_no_waste(context().ledger, p, cp.rank(), 2 * k.nbytes(), 2,
                      "flash_attention_backward");
    });
  CHECK(true);  // nothing was thrown
}
