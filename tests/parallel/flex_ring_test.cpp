#include "yotta/parallel/flex_ring.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "support/largest.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/loss.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/ulysses.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// B sequences of T tokens with documents of 1 to `most` tokens, drawn anew for each `name`.
std::vector<int32_t> drawn_documents(const char* name, int64_t B, int64_t T, int64_t most) {
  const Random random(3, name);
  std::vector<int32_t> all;
  uint64_t draws = 0;
  for (int64_t b = 0; b < B; ++b) {
    int32_t which = 0;
    for (int64_t left = T; left > 0; ++which) {
      const auto wish = static_cast<int64_t>(random.uniform(draws++) * static_cast<double>(most));
      const int64_t n = std::min(left, 1 + wish);
      all.insert(all.end(), static_cast<size_t>(n), which);
      left -= n;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a deal: each column once, as many on each rank, tiles equal within a row") {
  const int64_t B = 3, T = 120, tile = 7;  // no tile divides the shares of 60, 40 or 30
  for (const int ranks : {1, 2, 3, 4, 5})
    for (const char* name : {"a", "b", "c"})
      for (const MaskOptions& mask : {MaskOptions{.document = true, .tile = tile},
                                      MaskOptions{.document = true, .window = 9, .tile = tile},
                                      MaskOptions{.prefix = 30, .tile = tile}}) {
        const std::vector<int32_t> documents = drawn_documents(name, B, T, 90);
        const ContextDeal deal = deal_context(mask, documents, T, ranks);
        std::vector<int> times(static_cast<size_t>(B * T));
        for (const std::vector<int32_t>& places : deal.places) {
          REQUIRE(std::ssize(places) == B * T / ranks);
          for (size_t i = 0; i < places.size(); ++i)
            ++times[static_cast<size_t>(static_cast<int64_t>(i) / (T / ranks) * T + places[i])];
        }
        CHECK(times == std::vector<int>(times.size(), 1));

        // What the ranks' tiles hold: counted on their own columns, and as the deal says.
        int64_t all = 0, longest_row = 0;
        for (size_t rank = 0; rank < deal.places.size(); ++rank) {
          int64_t tiles = 0;
          const int64_t side = in_ring_tiles(mask, T, ranks).tile;
          std::vector<int64_t> rows(static_cast<size_t>(B * ceil_div(T / ranks, side)));
          for (const std::vector<int32_t>& keys : deal.places) {
            const TextTiles part(in_ring_tiles(mask, T, ranks), documents, T, deal.places[rank],
                                 keys, Where::current());
            tiles += count_tiles(part.tiles());
            for (size_t line = 0; line < rows.size(); ++line)
              rows[line] += part.tiles().by_row.first[line + 1] - part.tiles().by_row.first[line];
          }
          CHECK(tiles == deal.tiles[rank]);
          all += tiles;
          longest_row = std::max(longest_row, *std::max_element(rows.begin(), rows.end()));
        }
        for (const int64_t tiles : deal.tiles)
          CHECK(std::abs(tiles * ranks - all) <= longest_row * ranks);
      }
}

TEST_CASE("zig-zag is not equal work under documents, a deal is") {
  // Rank 0 of zig-zag has the beginning and the end: two documents of its own.
  const int64_t T = 128, tile = 8;
  std::vector<int32_t> documents(T, 1);
  std::fill(documents.begin(), documents.begin() + 32, 0);
  std::fill(documents.end() - 32, documents.end(), 2);
  const MaskOptions mask{.document = true, .tile = tile};
  const auto tiles_of = [&](const std::vector<int32_t>& places) {
    std::vector<int32_t> every(T);
    std::iota(every.begin(), every.end(), 0);
    return count_tiles(TextTiles(mask, documents, T, places, every, Where::current()).tiles());
  };
  std::vector<int32_t> ends, middle;
  for (int32_t t = 0; t < T; ++t) (t < 32 || t >= 96 ? ends : middle).push_back(t);
  CHECK(tiles_of(ends) == 2 * causal_tiles(4));
  CHECK(tiles_of(middle) == causal_tiles(8));
  const ContextDeal deal = deal_context(mask, documents, T, 2);
  CHECK(deal.tiles == std::vector<int64_t>{28, 28});
}

namespace {

constexpr int64_t B = 2, T = 264, vocabulary = 11;  // shares of 132, 88 and 66 in tiles of 16

TransformerConfig tiny(Dialect dialect, MaskOptions mask) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(2, 24, 12, T, vocabulary)
                                                 : llama_config(2, 24, 24, 12, 12, T, vocabulary);
  c.dtype = DType::f64;
  c.deviation = 0.3;
  c.dropout = 0.2;  // drawn by the place in the sequence
  mask.tile = 16;
  c.attention = AttentionKind::flex, c.mask = mask;
  return c;
}

Tensor ids(int64_t first) {
  Tensor drawn = Tensor::empty({B, T}, DType::i32);
  for (int64_t i = first; int32_t & id : drawn.span<int32_t>())
    id = static_cast<int32_t>((i * i + i / 7) % vocabulary), ++i;
  return drawn;
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradients;
};
// One pass over this rank's columns; gradients and loss summed over cp.
Outcome pass(Transformer& model, BatchPosition place, const Packing& packing,
             const Communicator& cp) {
  place.positions.packing = &packing;
  place.seed = 5, place.training = true;
  const std::vector<ParameterPtr> all = parameters(model.stack());
  for (const ParameterPtr& each : all) each->zero_grad();
  Saved saved(place);
  Tensor dlogits;
  Outcome out;
  const double loss =
      loss_of(forward(model.stack(), columns_at(ids(0), packing.places), saved),
              columns_at(ids(1), packing.places), 1.0 / static_cast<double>(B * T), &dlogits);
  backward(model.stack(), dlogits, saved);
  out.loss = axis_size(cp) == 1 ? loss : sum_over(cp, loss, "loss");
  if (axis_size(cp) > 1) reduce_gradients(all, cp, ReduceOp::sum);
  for (const ParameterPtr& each : all)
    for (const double g : each->grad.values()) out.gradients.push_back(g);
  return out;
}
Outcome serial(const TransformerConfig& config, const std::vector<int32_t>& documents) {
  Transformer model(config);
  return pass(model, {}, packing_of(documents, T), {});
}

struct MaskOnRanks {
  MaskOptions mask;
  std::vector<int> ranks;
};
const MaskOnRanks masks[] = {{{}, {2}},
                             {{.prefix = 3}, {3}},
                             {{.document = true}, {2, 3, 4}},
                             {{.document = true, .window = 40}, {3}},
                             {{.document = true, .alibi = true}, {4}}};

}  // namespace

TEST_CASE("packed documents on 2, 3 and 4 ranks: serial = ring = Ulysses, loss and gradients") {
  const std::vector<int32_t> documents = drawn_documents("model", B, T, 140);
  for (const auto& [mask, sizes] : masks) {
    const TransformerConfig config = tiny(mask.alibi ? Dialect::llama : Dialect::gpt2, mask);
    const Outcome expected = serial(config, documents);
    for (const int ranks : sizes)
      run_ranks(ranks, [&](Communicator& cp) {
        Transformer ring(config), heads(config);
        flex_ring(ring, cp);
        flex_ulysses(heads, cp);
        const Outcome by_ring = pass(ring, {}, dealt_packing(config.mask, documents, T, cp), cp);
        CHECK(std::abs(by_ring.loss - expected.loss) <= 1e-12);
        CHECK(largest(by_ring.gradients, expected.gradients) <= 1e-12);
        const Outcome by_heads = pass(heads, {.positions = context_positions(T, cp)},
                                      context_packing(documents, T, cp), cp);
        CHECK(std::abs(by_heads.loss - expected.loss) <= 1e-12);
        CHECK(largest(by_heads.gradients, expected.gradients) <= 1e-12);
      });
  }
}

TEST_CASE("the ring computes the tiles that were dealt, and no more") {
  const std::vector<int32_t> documents = drawn_documents("work", B, T, 140);
  TransformerConfig config = tiny(Dialect::gpt2, {.document = true});
  run_ranks(3, [&](Communicator& cp) {
    Transformer model(config);
    flex_ring(model, cp);
    const Packing packing = dealt_packing(config.mask, documents, T, cp);
    pass(model, {}, packing, cp);
    const auto& tiles = dynamic_cast<const RingTiles&>(*packing.made);
    int64_t scores = 0;
    for (const auto& each : tiles.of_keys) scores += computed_scores(each->tiles());
    const double d = 2, heads = 12, layers = 2;
    CHECK(context().ledger.op("flex_attention").flops ==
          4 * d * heads * layers * static_cast<double>(scores));
    CHECK(context().ledger.op("flex_attention_backward").flops ==
          10 * d * heads * layers * static_cast<double>(scores));
  });
}

TEST_CASE("columns that were not dealt are refused, and layers without flex attention") {
  const std::vector<int32_t> documents(B * T);
  const auto said = [&](const char* what) {
    return message_of([&] {
      run_ranks(2, [&](Communicator& cp) {
        TransformerConfig config = tiny(Dialect::gpt2, {});
        if (*what == 'b') config.attention = AttentionKind::blockwise, config.mask = {};
        Transformer model(config);
        if (*what == 'r') return ring_attention(model, cp);
        flex_ring(model, cp);
        if (*what == 'c') pass(model, {}, packing_of(documents, T), cp);
        Saved saved;
        forward(model.stack(), columns_at(ids(0), std::vector<int32_t>(B * T / 2)), saved);
      });
    });
  };
  CHECK(contains(said("columns"), "other columns than those that are dealt to rank"));
  CHECK(contains(said("none"), "dealt_packing makes"));
  CHECK(contains(said("blockwise"), "this needs flex attention"));
  CHECK(contains(said("ring"), "flex attention has flex_ring"));
  CHECK(contains(message_of([&] { deal_context({}, documents, T, 5); }), "264 tokens cannot"));
}
