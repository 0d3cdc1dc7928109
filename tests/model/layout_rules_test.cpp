#include "yotta/model/layout_rules.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("what cannot work is refused with the rule and the nearest that works") {
  const TransformerConfig config = gpt2_config(4, 16, 8, 8, 24);  // tied
  const auto said = [&](const MeshShape& shape, int64_t batch = 64, const NdOptions& options = {}) {
    return message_of([&] { expect_layout(config, shape, batch, options); });
  };
  CHECK(contains(said({.tp = 3}),
                 "8 heads are not divisible by 3. The nearest that works for this model: tp 2"));
  CHECK(contains(said({.cp = 3}), "8 tokens are not divisible by 6. The nearest that works: cp 2"));
  CHECK(contains(said({.pp = 8}), "the model has 4 blocks. The nearest that works: pp 4"));
  const auto chunks = [](int count) {
    return NdOptions{.schedule = PipelineKind::interleaved, .chunks = count};
  };
  CHECK(contains(said({.pp = 4}, 64, chunks(2)), "The nearest that works: 1 chunk per rank"));
  CHECK(contains(said({.pp = 1}, 64, chunks(5)), "The nearest that works: 4 chunks per rank"));
  CHECK(contains(said({.pp = 2}, 64, chunks(5)), "The nearest that works: 2 chunks per rank"));
  CHECK(contains(said({.pp = 5}, 64, chunks(5)), "The nearest that works: pp 4, 1 chunk per rank"));
  CHECK(contains(said({.pp = 2}, 64, {.chunks = 2}),
                 "1F1B has one stage per rank, not 2. Nearest: 1 chunk, or interleaved 1F1B"));
  CHECK(contains(said({}, 64, {.checkpoint = {.what = Recompute::attention}}),
                 "blockwise attention never keeps: nothing would be saved. Nearest: plain"));
  CHECK(contains(said({.pp = 2}, 64, {.schedule = PipelineKind::zb_h2, .chunks = 2}),
                 "ZB-H2 has one stage per rank, not 2"));
  CHECK(contains(said({}, 64, {.chunks = 0}), "NdOptions::chunks is 0"));
  const auto kind = [](PipelineKind schedule, int64_t m, int count = 1) {
    return NdOptions{.microbatches = m, .schedule = schedule, .chunks = count};
  };
  using enum PipelineKind;
  CHECK(contains(said({.pp = 3}, 64, kind(dual_pipe, 8)),
                 "DualPipe pairs rank r with rank p - 1 - r: p is even, not 3. Nearest: 1F1B"));
  CHECK(contains(said({.pp = 4}, 64, kind(dual_pipe, 6)),
                 "an even number of microbatches, at least 8, not 6. Nearest: 8 microbatches, or"));
  CHECK(contains(said({.pp = 2}, 64, kind(dual_pipe_v, 1)), "at least 4 microbatches, not 1"));
  CHECK(contains(said({.pp = 2}, 64, kind(zb_v, 4, 3)),
                 "ZB-V has two chunks per rank, not 3. Nearest: 2 chunks"));
  CHECK(contains(said({.pp = 4}, 64, kind(zb_v, 8)),
                 "pp 4 with 2 stages per rank needs a block for each of 8 stages, but the model "
                 "has 4 blocks. The nearest that works: pp 2"));
  CHECK(contains(said({.pp = 6}, 64, kind(dual_pipe, 12)), "The nearest that works: pp 4"));
  CHECK(contains(said({.pp = 2, .dp_replicate = 2}, 7, kind(dual_pipe, 4)),
                 "its 4 microbatches; the nearest batch is 8"));
  CHECK(said({.pp = 2}, 64, kind(zb_v, 1, 2)) == "nothing was thrown");
  CHECK(said({.pp = 6}, 64, {.ends_count = true}) == "nothing was thrown");
  CHECK(contains(said({.pp = 7}, 64, {.ends_count = true}), "The nearest that works: pp 6"));
  NdOptions held = kind(zb_h1, 4);
  held.hold = 3;
  CHECK(contains(said({.pp = 2}, 64, held), "a limit is for the automatic schedule"));
  CHECK(contains(said({.dp_replicate = 4}, 3), "the nearest batch is 4"));
  CHECK(contains(said({.dp_shard = 4}, 7, {.microbatches = 2}),
                 "its 2 microbatches; the nearest batch is 8"));
  const NdOptions ulysses{.context = ContextParallel::ulysses};
  CHECK(contains(said({.tp = 4, .cp = 4}, 64, ulysses),
                 "2 query and 2 key/value heads (on a rank of tp) are not both divisible by 4. The "
                 "nearest that works: cp 2, or ring attention"));
  // 4 divides the heads, but not 12 tokens into 8 chunks.
  const TransformerConfig uneven = gpt2_config(4, 16, 8, 12, 24);
  CHECK(
      contains(message_of([&] { expect_layout(uneven, {.cp = 6}, 64, ulysses); }), "works: cp 2"));
  const auto zero = [](int stage) { return NdOptions{.zero = {.stage = stage}}; };
  CHECK(contains(said({.dp_shard = 2, .dp_replicate = 2}, 64, zero(1)),
                 "FSDP over fsdp 2 has already cut all that ZeRO-1 would cut, and the weights "
                 "too. Nearest: fsdp without ZeRO, or dp 4 with it"));
  CHECK(contains(said({.dp_replicate = 2}, 64, zero(3)), "stage 3 is FSDP, the axis fsdp"));
  CHECK(contains(said({}, 64, {.zero = {.stage = 2}, .naive_gradients = true}),
                 "Nearest: gradients in buckets"));
  CHECK(contains(said({.dp_replicate = 4}, 7, {.microbatches = 2, .zero = {.stage = 2}}),
                 "its 2 microbatches; the nearest batch is 8"));
  CHECK(contains(said({.dp_shard = 2}, 64, {.loss_tokens = 8}),
                 "multiplies by the output matrix after the head's forward pass, when fsdp 2 has "
                 "dropped it. Nearest: the loss of all tokens at once"));
  CHECK(contains(
      said({.tp = 2}, 64, {.loss_tokens = 8, .pieces = Pieces::one_way}),
      "Async-TP multiplies by it while pieces of x arrive. Nearest: the loss of all tokens"));
  expect_layout(config, {.tp = 2}, 64, {.loss_tokens = 8, .sequence_parallel = true});
  const NdOptions sequences_of_12{.sequence_parallel = true, .sequence = 12};
  CHECK(contains(said({.tp = 4, .cp = 2}, 64, {.sequence_parallel = true, .sequence = 4}),
                 "sequence parallelism cuts at least 4 tokens among 4 ranks of tp, not 2. Leave "));
  CHECK(contains(said({.tp = 4, .cp = 2}, 64, {.pieces = Pieces::one_way, .sequence = 4}),
                 "sequence parallelism cuts at least 4 tokens among 4 ranks of tp, not 2. Leave "));
  expect_layout(config, {.tp = 4, .cp = 2}, 64, sequences_of_12);
  expect_layout(config, {.dp_replicate = 4}, 7, {.microbatches = 2, .zero = {.stage = 1}});
  expect_layout(config, {.pp = 2, .dp_shard = 2}, 2);
  expect_layout(config, {.tp = 2, .cp = 2, .pp = 2, .dp_replicate = 2}, 2);
}

namespace {

// The number after these words; 0 if they are not there.
int64_t number_after(const std::string& text, const std::string& words) {
  const size_t found = text.find(words);
  return found == text.npos ? 0 : std::atoll(text.c_str() + found + words.size());
}

// The layouts that a message says work.
struct Suggested {
  TransformerConfig config;
  MeshShape shape;
  int64_t batch;
  NdOptions options;
};
std::vector<Suggested> suggested_by(const std::string& text, const Suggested& from) {
  std::vector<Suggested> all;
  const auto add = [&](bool said, auto change) {
    if (!said) return;
    all.push_back(from);
    change(all.back());
  };
  const std::string works = "nearest that works: ", models = "works for this model: tp ";
  const int64_t tp = number_after(text, models), cp = number_after(text, works + "cp "),
                pp = number_after(text, works + "pp "), chunks = number_after(text, works),
                batch = number_after(text, "nearest batch is ");
  add(tp > 0, [&](Suggested& s) { s.shape.tp = static_cast<int>(tp); });
  add(cp > 0, [&](Suggested& s) { s.shape.cp = static_cast<int>(cp); });
  add(pp > 0, [&](Suggested& s) {
    s.shape.pp = static_cast<int>(pp);
    if (contains(text, "1 chunk per rank")) s.options.chunks = 1;
  });
  add(chunks > 0, [&](Suggested& s) { s.options.chunks = static_cast<int>(chunks); });
  add(batch > 0, [&](Suggested& s) { s.batch = batch; });
  add(contains(text, " microbatches, or") || text.ends_with(" microbatches"),
      [](Suggested& s) { s.options.microbatches = int64_t{2} * s.shape.pp; });
  add(contains(text, "1F1B") && !contains(text, "interleaved"),
      [](Suggested& s) { s.options.schedule = PipelineKind::one_f_one_b; });
  add(contains(text, "ring attention"),
      [](Suggested& s) { s.options.context = ContextParallel::ring; });
  add(contains(text, "plain attention"),
      [](Suggested& s) { s.config.attention = AttentionKind::plain; });
  add(contains(text, "recomputing all"),
      [](Suggested& s) { s.options.checkpoint.what = Recompute::all; });
  add(contains(text, "fsdp without ZeRO"), [](Suggested& s) { s.options.zero.stage = 0; });
  add(contains(text, " with it"), [&](Suggested& s) {
    s.shape.dp_shard = 1;
    s.shape.dp_replicate = std::atoi(text.c_str() + text.rfind(" dp ") + 4);
  });
  return all;
}

}  // namespace

TEST_CASE("what is suggested is no layout that is refused then") {
  const TransformerConfig config = llama_config(3, 16, 48, 8, 4, 24, 24);
  int64_t seen = 0, refused = 0;
  const auto look = [&](const Suggested& each) {
    const auto check = [](const Suggested& s) {
      return message_of([&] { expect_layout(s.config, s.shape, s.batch, s.options); });
    };
    const std::string text = check(each);
    for (const Suggested& other : suggested_by(text, each)) {
      ++seen;
      const std::string again = check(other);
      if (again == "nothing was thrown") continue;
      if (++refused == 1) MESSAGE(text << "\n  and then: " << again);
    }
  };
  for (int tp = 1; tp <= 4; ++tp)
    for (int cp = 1; cp <= 5; ++cp)
      for (int pp = 1; pp <= 4; ++pp)
        for (int fsdp = 1; fsdp <= 2; ++fsdp)
          for (int chunks = 1; chunks <= 3; ++chunks)
            for (int variant = 0; variant < 19; ++variant) {
              Suggested each{config,
                             {.tp = tp, .cp = cp, .pp = pp, .dp_shard = fsdp, .dp_replicate = 2},
                             5,
                             {.microbatches = 2, .chunks = chunks, .zero = {.stage = 0}}};
              if (chunks > 1) each.options.schedule = PipelineKind::interleaved;
              if (variant >= 16)
                each.options.schedule = std::array{PipelineKind::zb_v, PipelineKind::dual_pipe,
                                                   PipelineKind::dual_pipe_v}[variant - 16];
              if ((variant & 1) != 0) each.options.context = ContextParallel::ulysses;
              if ((variant & 2) != 0) each.options.checkpoint.what = Recompute::attention;
              if ((variant & 4) != 0) each.options.zero.stage = 2;
              if ((variant & 8) != 0) each.config.attention = AttentionKind::plain;
              if ((variant & 2) == 0) each.options.checkpoint.what = Recompute::none;
              look(each);
            }
  CHECK(seen > 100);
  CHECK(refused == 0);
}

TEST_CASE("ep wants experts, and a capacity the order of tokens; what is suggested works") {
  TransformerConfig config = llama_config(2, 16, 48, 8, 4, 24, 24);
  const auto said = [&](const MeshShape& shape) {
    return message_of([&] { expect_layout(config, shape, 8); });
  };
  CHECK(contains(said({.ep = 2, .dp_replicate = 2}),
                 "ep shares out the experts of a mixture among 2 ranks, but the model has none. "
                 "Nearest: dp 4"));
  config.mixture.experts = 3;
  CHECK(contains(said({.ep = 4}), "but the model has only 3. Nearest: ep 3, or dp 4"));
  CHECK(contains(said({.ep = 2, .dp_shard = 2}),
                 "3 cannot be divided by ep 2. Nearest: ep 1, or dp 2"));
  expect_layout(config, {.ep = 3, .dp_shard = 2}, 8);
  expect_layout(config, {.ep = 3}, 8);
  expect_layout(config, {.cp = 2, .ep = 3}, 8);
  CHECK(contains(said({.ep = 3, .dp_replicate = 4}),
                 "a batch of 8 sequences does not give each of 12 data-parallel ranks one"));
  const auto with_microbatches = [&](int64_t batch, int64_t m) {
    return message_of(
        [&] { expect_layout(config, {.dp_replicate = 2}, batch, {.microbatches = m}); });
  };
  CHECK(contains(with_microbatches(7, 4),
                 "a batch of 7 sequences gives some of 2 data-parallel ranks 4 microbatches, "
                 "others 3; the nearest batch is 8"));
  for (const auto& [batch, m] : {std::pair{8, 4}, {7, 3}, {6, 4}})
    CHECK(with_microbatches(batch, m) == "nothing was thrown");
  config.mixture.capacity = 1;
  CHECK(contains(said({.cp = 2, .ep = 3}),
                 "a rank holds early and late ones. Nearest: "
                 "cp 1, or no capacity"));
  expect_layout(config, {.ep = 3}, 8);
}

TEST_CASE("the balance loss of a whole batch wants GPipe, or no pipeline") {
  TransformerConfig config = llama_config(4, 16, 48, 8, 4, 24, 24);
  config.mixture.experts = 4;
  using enum PipelineKind;
  const auto said = [&](const MeshShape& shape, int64_t m, PipelineKind kind, int chunks = 1) {
    return message_of([&] {
      expect_layout(
          config, shape, 8,
          {.microbatches = m, .balance_over_batch = true, .schedule = kind, .chunks = chunks});
    });
  };
  for (const auto& [kind, chunks, words] :
       {std::tuple{one_f_one_b, 1, "1F1B"}, {zb_h1, 1, "ZB-H1"}, {naive, 1, "naive"}})
    CHECK(contains(said({.pp = 2}, 4, kind, chunks),
                   fmt::format("needs the loads of its 4 microbatches before the first backward "
                               "pass, and {} begins earlier. Nearest: GPipe, or 1 microbatch, or "
                               "a balance loss of each microbatch",
                               words)));
  CHECK(contains(said({}, 4, interleaved, 2), "interleaved 1F1B begins earlier. Nearest: GPipe"));
  CHECK(said({.pp = 2}, 4, gpipe) == "nothing was thrown");
  CHECK(said({.ep = 2}, 4, one_f_one_b) == "nothing was thrown");
  CHECK(said({.pp = 2}, 1, one_f_one_b) == "nothing was thrown");
}
