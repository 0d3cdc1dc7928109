// The graded cases of exercise 24: attention by an exchange of tokens for heads, on 1 to 8 ranks,
// in f64.
#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/ulysses.hpp"

using namespace yotta;
using exercise::expect;
using exercise::run;
using exercise::solution;

namespace {

constexpr int64_t B = 2, T = 48, H = 8, d = 4;  // T divides by 2 p for all p here
constexpr int all_ranks[] = {2, 1, 4, 8};

// How the sequence is cut: rank i of p holds chunks i and 2p-1-i, or in the other order 2i and
// 2i+1.
struct Split {
  int p;
  ChunkOrder order = ChunkOrder::zigzag;

  Tensor shard(const Tensor& x, int rank) const { return context_shard(x, p, rank, order); }
  // x as whoever takes the usual order for this one puts it together.
  Tensor mistaken(const Tensor& x) const {
    std::vector<Tensor> shards;
    for (int rank = 0; rank < p; ++rank) shards.push_back(shard(x, rank));
    return context_unshard(shards);
  }
  bool is_usual() const { return order == ChunkOrder::zigzag; }
  std::string of(const char* what, int rank) const {
    return fmt::format("{} of rank {} of {}{}", what, rank, p,
                       is_usual() ? "" : ", with ChunkOrder::contiguous");
  }
};
constexpr Split all_splits[] = {{2}, {1}, {4}, {8}, {2, ChunkOrder::contiguous}};
constexpr const char* order_forgotten =
    "tokens in the usual order: pass `order` on in every call, for ranks may hold chunks 2i and "
    "2i+1";

Tensor numbers(int64_t heads, const char* name) {
  Tensor x = Tensor::empty({B, T, heads, d}, DType::f64);
  const Random random(exercise::seed(24), name);
  for (uint64_t i = 0; double& value : x.span<double>()) value = random.normal(i++);
  return x;
}
Tensor heads_of(const Tensor& x, int p, int rank) {
  const int64_t h = x.dim(2) / p;
  return narrow(x, 2, rank * h, h);
}

// body(cp) gives a tensor on each rank; returns them by rank.
template <class Body>
std::vector<Tensor> on_ranks(int p, Body body) {
  std::vector<Tensor> made(static_cast<size_t>(p));
  run(p, [&](const Communicator& cp) { made[static_cast<size_t>(cp.rank())] = body(cp); });
  return made;
}

// What a rank does in `work`: bytes that it sends, or FLOPs.
template <class Work>
int64_t bytes_of(Work work) {
  const int64_t before = context().ledger.total_traffic().bytes_sent;
  work();
  return context().ledger.total_traffic().bytes_sent - before;
}
template <class Work>
double flops_of(Work work) {
  const double before = context().ledger.total_flops();
  work();
  return context().ledger.total_flops() - before;
}

// Throws if an exchange of x (this rank's part) sends more than what other ranks need of it.
void require_bytes(int64_t sent, const Tensor& x, const Split& split, const char* who) {
  const int64_t right = x.nbytes() / split.p * (split.p - 1);
  if (sent != right)
    fail(Where::current(),
         "right, but {} sends {} bytes on a rank of {} and {} are enough: each other rank needs a "
         "{}th of x, in one all_to_all",
         who, sent, split.p, right, split.p);
}

void expect_equal(const Tensor& actual, const Tensor& expected, Clues clues,
                  const std::string& what) {
  clues.what = what;
  expect(compare(actual, expected, 1e-11, clues));
}

}  // namespace

namespace {

// `Hkv`: heads of keys and values.
void expect_formula(int p, int64_t Hkv) {
  const Tensor q = numbers(H, "q"), k = numbers(Hkv, "k"), v = numbers(Hkv, "v");
  int64_t sent = 0;
  run(p, [&](const Communicator& cp) {
    const auto mine = [&](const Tensor& t) { return context_shard(t, p, cp.rank()); };
    UlyssesSaved saved;
    context().ledger.reset();
    ulysses_attention(mine(q), mine(k), mine(v), cp, saved);
    if (cp.rank() == 0) sent = context().ledger.total_traffic().bytes_sent;
  });
  const int64_t said = solution.bytes(p, q.nbytes(), k.nbytes());
  const int64_t by_ring = 2 * k.nbytes() / p * (p - 1);
  expect(
      said == sent,
      fmt::format("{} heads of queries, {} of keys and values: on {} ranks a rank sent {} bytes, "
                  "your formula says {}{}",
                  H, Hkv, p, sent, said,
                  p > 1 && said == by_ring ? ": that is the ring's, which sends all of k and v; "
                                             "of an all_to_all a rank keeps a p-th"
                  : p > 1 && said == sent * p / (p - 1)
                      ? ": of an all_to_all a rank keeps its own part, a p-th"
                  : Hkv != H && said == solution.bytes(p, k.nbytes(), q.nbytes())
                      ? ": o is as large as q, and v as k"
                      : ""));
}

}  // namespace

TEST_CASE("24.1: the bytes that a rank sends are the ledger's") {
  for (const int p : all_ranks) expect_formula(p, H);
  for (const int p : {2, 4}) expect_formula(p, H / 2);
}

TEST_CASE("24.2: heads divide among the ranks, or it is said what would") {
  for (const int p : all_ranks)
    run(p, [&](const Communicator& cp) {
      const int64_t each = solution.heads_each(numbers(H, "q"), cp);
      expect(each == H / p, fmt::format("{} heads on {} ranks: you say {} each", H, p, each));
    });
  int64_t each = 0;
  const auto said = [&](const Tensor& x, int p) {
    std::string text;
    run(p, [&](const Communicator& cp) {
      int64_t mine = 0;
      const std::string error = exercise::error_of([&] { mine = solution.heads_each(x, cp); });
      if (cp.rank() == 0) each = mine, text = error;
    });
    return text;
  };
  std::string text = said(numbers(H, "q"), 3);
  expect(!text.empty(), fmt::format("8 heads do not divide among 3 ranks, and you say {} each: {} "
                                    "heads are nobody's; fail(where, ...)",
                                    each, H - 3 * each));
  const bool advice = text.find('6') != std::string::npos || text.find('9') != std::string::npos;
  expect(advice, "8 heads on 3 ranks: say that 6 heads would divide, or 9. You say: " + text);
  text = said(numbers(2, "q"), 4);
  expect(!text.empty(), "2 heads do not divide among 4 ranks; fail(where, ...)");
  expect(text.find(" 0 ") == std::string::npos,
         "2 heads on 4 ranks: 0 heads are no advice, 4 are. You say: " + text);
}

TEST_CASE("24.3: each rank has all tokens of its heads, in the order of the sequence") {
  const Tensor x = numbers(H, "x");
  for (const Split& split : all_splits) {
    const int p = split.p;
    std::vector<int64_t> sent(static_cast<size_t>(p));
    const std::vector<Tensor> made = on_ranks(p, [&](const Communicator& cp) {
      const Tensor mine = split.shard(x, cp.rank());
      Tensor y;
      sent[static_cast<size_t>(cp.rank())] =
          bytes_of([&] { y = solution.to_heads(mine, cp, split.order); });
      return y;
    });
    std::vector<Tensor> shards;
    for (int rank = 0; rank < p; ++rank) shards.push_back(split.shard(x, rank));
    for (int rank = 0; rank < p; ++rank) {
      Clues clues;
      if (p > 1) {
        clues.suspects = {
            {"the right heads with the tokens by rank: rank i holds chunks i and 2p-1-i, which "
             "context_unshard puts in the sequence's order",
             heads_of(cat(shards, 1), p, rank).values()},
            {"rank 0's heads: cut a part of its own for each rank", heads_of(x, p, 0).values()}};
        if (rank == 0) clues.suspects.pop_back();
        if (!split.is_usual())
          clues.suspects = {{order_forgotten, heads_of(split.mistaken(x), p, rank).values()}};
      }
      expect_equal(made[static_cast<size_t>(rank)], heads_of(x, p, rank), clues,
                   split.of("the heads", rank));
    }
    for (const int64_t each : sent) require_bytes(each, split.shard(x, 0), split, "to_heads");
  }
}

TEST_CASE("24.4: the way back gives each rank all heads of its tokens") {
  const Tensor x = numbers(H, "x");
  for (const Split& split : all_splits) {
    const int p = split.p;
    std::vector<int64_t> sent(static_cast<size_t>(p));
    const std::vector<Tensor> made = on_ranks(p, [&](const Communicator& cp) {
      const Tensor mine = heads_of(x, p, cp.rank());
      Tensor y;
      sent[static_cast<size_t>(cp.rank())] =
          bytes_of([&] { y = solution.to_tokens(mine, cp, split.order); });
      return y;
    });
    for (int rank = 0; rank < p; ++rank) {
      const Tensor right = split.shard(x, rank);
      Clues clues;
      if (p > 1) {
        std::vector<Tensor> parts;
        for (int r = 0; r < p; ++r)
          parts.push_back(heads_of(right, p, r).reshape({1, B, T / p, H / p, d}));
        clues.suspects = {
            {"the ranks' parts one behind the other in memory: a head's numbers are not "
             "side by side, cat the parts along the heads",
             cat(parts, 0).values()}};
        if (!split.is_usual())
          clues.suspects.push_back({order_forgotten, context_shard(x, p, rank).values()});
      }
      expect_equal(made[static_cast<size_t>(rank)], right, clues, split.of("the tokens", rank));
    }
    for (const int64_t each : sent) require_bytes(each, heads_of(x, p, 0), split, "to_tokens");
  }
}

TEST_CASE("24.5: attention's output is the single rank's, grouped queries too") {
  for (const Split& split : all_splits)
    for (const int64_t Hkv : {H, H / 2}) {
      const int p = split.p;
      if (Hkv % p != 0) continue;
      const Tensor q = numbers(H, "q"), k = numbers(Hkv, "k"), v = numbers(Hkv, "v");
      const FlashAttention whole = flash_attention(q, k, v);
      const Tensor swapped = flash_attention(q, v, k).o;
      const auto mine = [&](const Tensor& t, int rank) { return split.shard(t, rank); };
      const std::vector<Tensor> made = on_ranks(p, [&](const Communicator& cp) {
        const int r = cp.rank();
        const exercise::Forward out =
            solution.forward(mine(q, r), mine(k, r), mine(v, r), cp, split.order);
        const bool kept = out.q.defined() && out.k.defined() && out.v.defined();
        expect(kept && out.q.dim(2) == H / p,
               "keep q, k and v as they were exchanged: backward needs whole sequences");
        expect(out.attention_o.defined() && out.attention_log_sum_exp.defined() &&
                   out.attention_o.shape() == out.q.shape(),
               "saved.attention is not what flash_attention has returned: backward needs its o "
               "of whole sequences, before to_tokens, and its log_sum_exp");
        return out.o;
      });
      for (int r = 0; r < p; ++r) {
        Clues clues;
        clues.suspects = {{"attention to v with the values of k: they have changed places",
                           mine(swapped, r).values()}};
        if (p > 1)
          clues.suspects.push_back(
              {"attention over this rank's own tokens alone: exchange q, k and v first",
               flash_attention(mine(q, r), mine(k, r), mine(v, r)).o.values()});
        if (!split.is_usual()) {
          const auto as = [&](const Tensor& t) { return split.mistaken(t); };
          clues.suspects.push_back(
              {order_forgotten,
               context_shard(flash_attention(as(q), as(k), as(v)).o, p, r).values()});
        }
        expect_equal(made[static_cast<size_t>(r)], mine(whole.o, r), clues, split.of("o", r));
      }
    }
}

TEST_CASE("24.5: four exchanges, and no more") {
  run(4, [](const Communicator& cp) {
    const Split split{4};
    const auto mine = [&](const char* name) { return split.shard(numbers(H, name), cp.rank()); };
    const Tensor q = mine("q"), k = mine("k"), v = mine("v"), o = heads_of(numbers(H, "o"), 4, 0);
    const int64_t each = bytes_of([&] { solution.to_heads(q, cp, split.order); }),
                  back = bytes_of([&] { solution.to_tokens(o, cp, split.order); }),
                  sent = bytes_of([&] { solution.forward(q, k, v, cp, split.order); });
    if (sent != 3 * each + back)
      fail(Where::current(),
           "right, but a rank of 4 sends {} bytes, and {} if q, k and v go to heads once and o "
           "comes "
           "back once",
           sent, 3 * each + back);
  });
  CHECK(true);
}

TEST_CASE("24.6: the gradients are the single rank's") {
  for (const Split& split : all_splits)
    for (const int64_t Hkv : {H, H / 2}) {
      const int p = split.p;
      if (Hkv % p != 0) continue;
      const Tensor q = numbers(H, "q"), k = numbers(Hkv, "k"), v = numbers(Hkv, "v");
      const Tensor dout = numbers(H, "dout");
      const AttentionGradients whole =
          flash_attention_backward(dout, q, k, v, flash_attention(q, k, v));
      std::vector<AttentionGradients> made(static_cast<size_t>(p));
      run(p, [&](const Communicator& cp) {
        const auto mine = [&](const Tensor& t) { return split.shard(t, cp.rank()); };
        made[static_cast<size_t>(cp.rank())] =
            solution.backward(mine(dout), mine(q), mine(k), mine(v), cp, split.order);
      });
      for (int r = 0; r < p; ++r) {
        const AttentionGradients& got = made[static_cast<size_t>(r)];
        const auto mine = [&](const Tensor& t) { return split.shard(t, r); };
        Clues swapped;
        swapped.suspects = {
            {"the right dv: dk and dv have changed places", mine(whole.dv).values()}};
        expect_equal(got.dq, mine(whole.dq), {}, split.of("dq", r));
        expect_equal(got.dk, mine(whole.dk), swapped, split.of("dk", r));
        expect_equal(got.dv, mine(whole.dv), {}, split.of("dv", r));
      }
    }
}

TEST_CASE("24.6: four exchanges, and attention is not computed again") {
  run(4, [](const Communicator& cp) {
    const Split split{4};
    const auto mine = [&](const char* name) { return split.shard(numbers(H, name), cp.rank()); };
    const Tensor q = mine("q"), k = mine("k"), v = mine("v"), dout = mine("dout"),
                 dq = heads_of(numbers(H, "o"), 4, 0);
    const int64_t there = bytes_of([&] { solution.to_heads(q, cp, split.order); }),
                  back = bytes_of([&] { solution.to_tokens(dq, cp, split.order); }),
                  forward = bytes_of([&] { solution.forward(q, k, v, cp, split.order); });
    const int64_t sent =
        bytes_of([&] { solution.backward(dout, q, k, v, cp, split.order); }) - forward;
    if (sent != there + 3 * back)
      fail(Where::current(),
           "right, but a rank of 4 sends {} bytes in backward, and {} if dout goes to heads once "
           "and dq, dk and dv come back once",
           sent, there + 3 * back);
  });
  const Tensor q = numbers(H, "q"), k = numbers(H, "k"), v = numbers(H, "v");
  run(1, [&](const Communicator& cp) {
    const FlashAttention kept = flash_attention(q, k, v);
    const double forward = flops_of([&] { solution.forward(q, k, v, cp, ChunkOrder::zigzag); }),
                 both = flops_of([&] { solution.backward(q, q, k, v, cp, ChunkOrder::zigzag); }),
                 right = flops_of([&] { flash_attention_backward(q, q, k, v, kept); });
    if (!(both - forward <= right))
      fail(Where::current(),
           "right, but backward computes {:.3g} FLOPs, and {:.3g} are enough: attention's results "
           "are in saved.attention, so it is not computed again",
           both - forward, right);
  });
  CHECK(true);
}
