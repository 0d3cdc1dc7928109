// A mixture of experts on every layout of the mesh is that on a single rank: losses, gradient norms, and all weights
// after three steps of AdamW with clipping, in double.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "model/layout_check.hpp"
#include "support/not_run.hpp"

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
               {.microbatches = 2, .checkpoint = {Recompute::all}, .zero_bubble = ZeroBubble::H1},
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

TEST_CASE("a mixture whose step is refused goes on as if it had never been taken") {
  TransformerConfig config = with_losses(mixture_of(4, 2));
  config.mixture.bias_rate = 0.01;
  const Outcome whole = serial(config);
  for (const MeshShape& shape : {MeshShape{.ep = 2}, MeshShape{.ep = 2, .dp_replicate = 2},
                                 MeshShape{.tp = 2, .ep = 2}, MeshShape{.ep = 2, .dp_shard = 2}})
    check_layout(config, shape, {}, whole, 8, true);
}

TEST_CASE("random mixtures on random layouts up to 8 ranks") {
  const uint64_t seeds = long_form() ? 200 : 40;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Random random(seed, "mixture");
    uint64_t draw = 0;
    const auto below = [&](uint32_t n) { return static_cast<int>(random.below(draw++, n)); };
    MeshShape shape;
    int left = 2 + below(7);
    for (int factor = 2; left > 1; ++factor)
      for (; left % factor == 0; left /= factor)
        shape[all_axes[static_cast<size_t>(below(6))]] *= factor;
    TransformerConfig config = mixture_of(shape.ep + below(6), 1, Dialect::llama, seed);
    if (shape.dp_shard > 1) config.mixture.experts = shape.ep * (1 + below(3));
    config.mixture.top_k = 1 + below(static_cast<uint32_t>(config.mixture.experts));
    config.mixture.shared = below(2);
    config.mixture.score = below(2) == 0 ? RouterScore::softmax : RouterScore::sigmoid;
    config.mixture.bias_rate = below(2) * 0.01;
    if (below(2) == 0) config = with_losses(config);
    if (shape.cp == 1 && below(2) == 0) config.mixture.capacity = 0.5 + 0.25 * below(4);
    config.heads = config.kv_heads = shape.tp * 2, config.width = config.heads * 4;
    config.feed_forward = shape.tp * (1 + below(9));
    config.context = 2 * shape.cp * (1 + below(3));
    config.vocabulary = shape.tp * (3 + below(9));
    // A loss of the whole batch is one microbatch's.
    const bool is_whole = config.mixture.balance_loss > 0 || config.mixture.capacity > 0;
    NdOptions options{.microbatches = is_whole ? 1 : 1 + below(3)};
    options.schedule = static_cast<PipelineKind>(below(4));
    if (options.schedule == PipelineKind::interleaved)
      options.chunks = 1 + below(2);
    else if (below(4) == 0)
      options.zero_bubble = static_cast<ZeroBubble>(1 + below(2));
    config.layers = std::max(shape.pp * options.chunks, 2);
    if (2 % shape.cp == 0 && below(2) == 0) options.context = ContextParallel::ulysses;
    options.naive_gradients = below(4) == 0;
    if (below(2) == 0) options.checkpoint = {.what = Recompute::all, .every = 1 + below(2)};
    options.fsdp = {.layers_per_unit = 1 + below(3), .prefetch = below(3) > 0};
    options.sequence_parallel = config.context / shape.cp >= shape.tp && below(2) == 0;
    if (shape.dp_shard == 1 && !options.naive_gradients) options.zero.stage = below(3);
    const int64_t batch = shape.data_ranks() * options.microbatches + below(4);
    check_layout(config, shape, options, serial(config, batch), batch);
  }
}
