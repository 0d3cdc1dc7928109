#include "yotta/model/layout_rules.hpp"

#include <doctest/doctest.h>

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
  CHECK(contains(said({.pp = 2}, 64, {.zero_bubble = ZeroBubble::H2, .chunks = 2}),
                 "ZB-H2 has one stage per rank, not 2"));
  CHECK(contains(said({}, 64, {.chunks = 0}), "0 chunks per rank"));
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
  expect_layout(config, {.dp_replicate = 4}, 7, {.microbatches = 2, .zero = {.stage = 1}});
  expect_layout(config, {.pp = 2, .dp_shard = 2}, 2);
  expect_layout(config, {.tp = 2, .cp = 2, .pp = 2, .dp_replicate = 2}, 2);
}
