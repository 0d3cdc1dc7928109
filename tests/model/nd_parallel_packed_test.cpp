// Packed documents on meshes: each axis, beside context parallelism by ring and by Ulysses.
#include <doctest/doctest.h>

#include "model/layout_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Sequences of 12 tokens in tiles of 4: of the shares of two ranks of cp no tile is a divisor.
TransformerConfig packed_config(Dialect dialect, const MaskOptions& mask) {
  TransformerConfig config = config_of(dialect, dialect == Dialect::gpt2, 2);
  config.context = 12;
  config.attention = AttentionKind::flex, config.mask = mask;
  config.mask.document = true, config.mask.tile = 4;
  return config;
}

}  // namespace

TEST_CASE("packed documents on every axis, and with context parallelism beside it") {
  const TransformerConfig learned = packed_config(Dialect::gpt2, {.window = 5});
  const TransformerConfig alibi = packed_config(Dialect::llama, {.alibi = true});
  const Outcome whole_learned = serial(learned), whole_alibi = serial(alibi);
  for (const ContextParallel context : {ContextParallel::ring, ContextParallel::ulysses})
    for (const Axis axis : dense_axes) {
      MeshShape shape;
      shape[Axis::cp] = 2, shape[axis] = 2;
      const NdOptions options{.microbatches = 2, .context = context};
      check_layout(learned, shape, options, whole_learned);
      check_layout(alibi, shape, options, whole_alibi);
    }
}

TEST_CASE("packed documents under sequence parallelism, recomputing and zero-bubble pipelines") {
  const TransformerConfig rope = packed_config(Dialect::llama, {.prefix = 2});
  const TransformerConfig learned = packed_config(Dialect::gpt2, {});
  const Outcome whole_rope = serial(rope), whole_learned = serial(learned);
  const MeshShape both{.tp = 2, .cp = 2};
  check_layout(rope, both, {.sequence_parallel = true}, whole_rope);
  check_layout(learned, both, {.sequence_parallel = true}, whole_learned);
  check_layout(learned, both, {.microbatches = 2, .pieces = Pieces::one_way}, whole_learned);
  check_layout(rope, {.cp = 2}, {.checkpoint = {.what = Recompute::all}}, whole_rope);
  check_layout(learned, {.cp = 2}, {.checkpoint = {.what = Recompute::pointwise}}, whole_learned);
  check_layout(learned, {.cp = 2, .pp = 2}, {.microbatches = 4, .schedule = PipelineKind::zb_h1},
               whole_learned);
}

TEST_CASE("recomputing attention alone saves nothing under a mask, and plain attention has none") {
  const TransformerConfig config = packed_config(Dialect::gpt2, {});
  const std::string said = message_of(
      [&] { expect_layout(config, {}, 8, {.checkpoint = {.what = Recompute::attention}}); });
  CHECK(contains(said, "which flex attention never keeps"));
  CHECK(contains(said, "recomputing all"));
  CHECK_FALSE(contains(said, "plain"));
}
