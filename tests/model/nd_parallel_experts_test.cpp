// A mixture of experts on every layout of the mesh is that on a single rank: losses, gradient
// norms, and all weights after three steps of AdamW with clipping, in double.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "model/layout_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

TransformerConfig mixture_of(int64_t experts, int64_t top_k, Dialect dialect = Dialect::llama,
                             uint64_t seed = 5) {
  TransformerConfig c = config_of(dialect, dialect == Dialect::gpt2, 2, seed);
  c.mixture.experts = experts;
  c.mixture.top_k = top_k;
  return c;
}

// Losses that need the load of the whole batch, which is a microbatch here.
TransformerConfig with_losses(TransformerConfig c) {
  c.mixture.balance_loss = 0.1, c.mixture.z_loss = 0.01;
  return c;
}

}  // namespace

TEST_CASE("experts over ep, beside every other axis, are the single rank") {
  const TransformerConfig config = with_losses(mixture_of(4, 2));
  const Outcome whole = serial(config);
  check_layout(config, {}, {}, whole);
  check_layout(config, {.ep = 2}, {}, whole);
  check_layout(config, {.ep = 4, .dp_replicate = 2}, {}, whole);
  for (const Axis axis : dense_axes) {
    MeshShape shape{.ep = 2};
    shape[axis] *= 2;
    check_layout(config, shape, {}, whole);
    shape.ep = 1;
    check_layout(config, shape, {}, whole);
  }
  check_layout(config, {.ep = 3}, {}, whole);  // 2, 1, 1 experts; 3, 3, 2 sequences
  check_layout(config, {.tp = 2, .ep = 2, .dp_shard = 2}, {}, whole);
}

TEST_CASE("experts: top-k 1, 2, 4, both dialects, a shared expert, sigmoid and a bias, capacity") {
  for (const int64_t k : {1, 4}) {
    const TransformerConfig config = mixture_of(8, k, k == 1 ? Dialect::gpt2 : Dialect::llama);
    const Outcome whole = serial(config);
    check_layout(config, {.ep = 4, .dp_replicate = 2}, {}, whole);
    check_layout(config, {.ep = 8}, {}, whole);
  }
  TransformerConfig config = with_losses(mixture_of(4, 2));
  config.mixture.shared = 1;
  config.mixture.score = RouterScore::sigmoid;
  config.mixture.bias_rate = 0.01;
  Outcome whole = serial(config);
  for (const MeshShape& shape :
       {MeshShape{}, MeshShape{.ep = 2, .dp_replicate = 2}, MeshShape{.ep = 2, .dp_shard = 2},
        MeshShape{.tp = 2, .ep = 2}, MeshShape{.pp = 2, .ep = 2}, MeshShape{.cp = 2, .ep = 2}})
    check_layout(config, shape, {}, whole);
  config.mixture.capacity = 0.75;
  whole = serial(config);
  for (const MeshShape& shape :
       {MeshShape{.dp_replicate = 3}, MeshShape{.ep = 2, .dp_replicate = 2},
        MeshShape{.tp = 2, .ep = 2}, MeshShape{.pp = 2, .dp_shard = 2}})
    check_layout(config, shape, {}, whole);
}

TEST_CASE(
    "experts with several microbatches, ZeRO, recomputation, schedules, sequence parallelism") {
  TransformerConfig config = mixture_of(4, 2);
  config.mixture.z_loss = 0.01, config.mixture.bias_rate = 0.01;
  const Outcome whole = serial(config);
  for (const int stage : {1, 2})
    check_layout(config, {.ep = 2, .dp_replicate = 2},
                 {.microbatches = 2, .zero = {.stage = stage, .bucket_bytes = 4000}}, whole);
  check_layout(config, {.ep = 2}, {.microbatches = 2, .zero = {.stage = 2}}, whole);
  check_layout(config, {.ep = 2, .dp_replicate = 2}, {.microbatches = 2, .naive_gradients = true},
               whole);
  check_layout(config, {.pp = 2, .ep = 2},
               {.microbatches = 2, .checkpoint = {Recompute::all}, .schedule = PipelineKind::zb_h1},
               whole);
  check_layout(config, {.ep = 2, .dp_shard = 2},
               {.microbatches = 2, .checkpoint = {Recompute::all}}, whole);
  check_layout(config, {.ep = 2},
               {.microbatches = 2, .schedule = PipelineKind::interleaved, .chunks = 2}, whole);
  for (const bool keep : {false, true})
    check_layout(config, {.tp = 2, .ep = 2},
                 {.microbatches = 2, .sequence_parallel = true, .keep_gathered = keep}, whole);
  check_layout(config, {.tp = 2, .cp = 2, .ep = 2},
               {.context = ContextParallel::ulysses, .sequence_parallel = true}, whole);
}

TEST_CASE("a balance loss of the whole batch: any microbatches, the loss and gradients of one") {
  TransformerConfig config = with_losses(mixture_of(4, 2));
  config.mixture.bias_rate = 0.01;
  const Outcome whole = serial(config);
  for (const int64_t microbatches : {1, 4})
    for (const MeshShape& shape :
         {MeshShape{}, MeshShape{.ep = 2}, MeshShape{.dp_replicate = 2},
          MeshShape{.ep = 2, .dp_replicate = 2}, MeshShape{.ep = 2, .dp_shard = 2},
          MeshShape{.tp = 2, .ep = 2}, MeshShape{.cp = 2}, MeshShape{.pp = 2, .ep = 2}})
      if (8 / shape.data_ranks() >= microbatches)
        check_layout(config, shape,
                     {.microbatches = microbatches,
                      .balance_over_batch = true,
                      .schedule = PipelineKind::gpipe},
                     whole);
  for (const MeshShape& shape : {MeshShape{.ep = 2}, MeshShape{.pp = 2}})  // forward runs again
    check_layout(config, shape,
                 {.microbatches = 2,
                  .balance_over_batch = true,
                  .checkpoint = {Recompute::all},
                  .schedule = PipelineKind::gpipe},
                 whole);
  check_layout(config, {.dp_replicate = 2},
               {.microbatches = 2, .balance_over_batch = true, .zero = {.stage = 2}}, whole);
  for (const int stage : {1, 2})  // the loss in chunks: gradients of its matrix before the first W
    for (const MeshShape& shape : {MeshShape{.ep = 2}, MeshShape{.dp_replicate = 2}})
      check_layout(config, shape,
                   {.microbatches = 2,
                    .balance_over_batch = true,
                    .loss_tokens = 5,
                    .zero = {.stage = stage}},
                   whole);
}

TEST_CASE("a mixture whose step is refused goes on as if it had never been taken") {
  TransformerConfig config = with_losses(mixture_of(4, 2));
  config.mixture.bias_rate = 0.01;
  const Outcome whole = serial(config);
  for (const MeshShape& shape : {MeshShape{.ep = 2}, MeshShape{.ep = 2, .dp_replicate = 2},
                                 MeshShape{.tp = 2, .ep = 2}, MeshShape{.ep = 2, .dp_shard = 2}})
    check_layout(config, shape, {}, whole, 8, true);
}
