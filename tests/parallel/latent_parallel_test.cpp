// Latent attention whose heads are shared out: what is sent, and that nothing else changes.
#include "yotta/parallel/latent_parallel.hpp"

#include <doctest/doctest.h>

#include "model/layout_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

TransformerConfig latent_config(int64_t layers = 4) {
  TransformerConfig c = config_of(Dialect::llama, false, layers);
  c.latent = {6, 10, 3, 4, 5};
  return c;
}

}  // namespace

TEST_CASE("latent attention over every axis is the single rank") {
  const TransformerConfig config = latent_config();
  const Outcome whole = serial(config);
  check_layout(config, {}, {}, whole);
  for (const Axis axis : dense_axes)
    for (const int size : {2, 4}) {
      MeshShape shape;
      shape[axis] = size;
      check_layout(config, shape, {}, whole);
    }
  check_layout(config, {.tp = 2, .cp = 2, .pp = 2}, {}, whole);
  check_layout(config, {.tp = 2, .dp_shard = 2}, {}, whole);
  check_layout(config, {.cp = 2}, {.context = ContextParallel::ulysses}, whole);
}

TEST_CASE("latent attention with sequence parallelism, in pieces, and run again in backward") {
  const TransformerConfig config = latent_config();
  const Outcome whole = serial(config);
  for (const bool keeps : {false, true})
    for (const int tp : {2, 4})
      check_layout(config, {.tp = tp, .dp_replicate = 2},
                   {.sequence_parallel = true, .keep_gathered = keeps}, whole);
  check_layout(config, {.tp = 2}, {.pieces = Pieces::one_way}, whole);
  check_layout(config, {.tp = 4}, {.pieces = Pieces::both_ways}, whole);
  for (const Recompute what : {Recompute::all, Recompute::pointwise}) {
    NdOptions options{.sequence_parallel = true};
    options.checkpoint.what = what;
    check_layout(config, {.tp = 2, .pp = 2}, options, whole);
    options.sequence_parallel = false;
    check_layout(config, {.tp = 2}, options, whole);
  }
}

TEST_CASE("first blocks without experts, beside latent attention, on every axis") {
  TransformerConfig config = latent_config();
  config.mixture.experts = 4, config.mixture.shared = 1,
  config.mixture.score = RouterScore::sigmoid;
  config.mixture.dense_layers = 2, config.mixture.dense_width = 40;
  config.mixture.balance_loss = 0.1;
  const Outcome whole = serial(config);
  check_layout(config, {}, {}, whole);
  check_layout(config, {.ep = 2}, {}, whole);
  check_layout(config, {.tp = 2, .ep = 2}, {}, whole);
  check_layout(config, {.pp = 2, .ep = 2}, {}, whole);
  check_layout(config, {.ep = 2, .dp_shard = 2}, {}, whole);
  check_layout(config, {.cp = 2, .ep = 2}, {}, whole);
}

TEST_CASE("f moves the latents, and not the stream") {
  const TransformerConfig c = latent_config(1);
  const int64_t N = 2 * c.context, latents = c.latent.q_rank + c.latent.kv_rank + c.latent.turned;
  const auto reports = run_ranks(2, [&](Communicator& tp) {
    Attention attention("a", c);
    latent_parallel(attention, std::make_shared<const Border>(tp));
    Saved saved;
    const Tensor x = Tensor::full({2, c.context, c.width}, 1, DType::f64);
    attention.forward(x, saved);
    attention.backward_input(x, saved);
  });
  int64_t forward = 0, backward = 0;
  for (const RankReport& rank : reports) {
    forward += rank.ledger().traffic("tp.forward").bytes_sent;
    backward += rank.ledger().traffic("tp.backward").bytes_sent;
  }
  CHECK(forward == tensor_parallel_bytes_sent_by_all(2, N * c.width, 8));
  CHECK(backward == tensor_parallel_bytes_sent_by_all(2, N * latents, 8));
}
