#include "yotta/parallel/nd_options.hpp"

#include <doctest/doctest.h>

#include "support/refused.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/parallelize.hpp"

using namespace yotta;

TEST_CASE("a run's sequences are as long as the model's context, unless they are shorter") {
  const TransformerConfig config = gpt2_config(1, 8, 2, 32, 16);
  NdOptions options;
  CHECK(options.tokens(config) == 32);
  options.sequence = 12;
  CHECK(options.tokens(config) == 12);
}

TEST_CASE("tokens are shared over tp with sequence parallelism, and where they travel in pieces") {
  NdOptions options;
  options.keep_gathered = true;
  CHECK_FALSE(options.shares_tokens());
  options.sequence_parallel = true;
  CHECK(options.shares_tokens());
  CHECK(NdOptions{.pieces = Pieces::one_way}.shares_tokens());
}

TEST_CASE("a size or a count that no run can mean is refused, whether its axis is used or not") {
  const auto refused = [](const char* words, auto set) {
    NdOptions options;
    set(options);
    yotta_test::check_refused({{words, [&] { check_options(options); }}});
  };
  check_options({});
  check_options({.checkpoint = {.every = 0}, .checkpoint_blocks = 0});
  refused("NdOptions::microbatches is 0, expected 1", [](auto& o) { o.microbatches = 0; });
  refused("NdOptions::checkpoint_blocks is -2", [](auto& o) { o.checkpoint_blocks = -2; });
  refused("NdOptions::chunks is 0, expected 1", [](auto& o) { o.chunks = 0; });
  refused("NdOptions::hold is -1, expected 0", [](auto& o) { o.hold = -1; });
  refused("NdOptions::sequence is -1, expected 0", [](auto& o) { o.sequence = -1; });
  refused("CheckpointOptions::every is -1", [](auto& o) { o.checkpoint.every = -1; });
  refused("CheckpointOptions::snapshots is 0", [](auto& o) { o.checkpoint.snapshots = 0; });
  refused("FsdpOptions::layers_per_unit is 0", [](auto& o) { o.fsdp.layers_per_unit = 0; });
  refused("ZeroOptions::bucket_bytes is 0", [](auto& o) { o.zero.bucket_bytes = 0; });
  refused("DdpOptions::bucket_bytes is -1", [](auto& o) { o.ddp.bucket_bytes = -1; });
}

TEST_CASE("a run with such options does not begin") {
  const TransformerConfig config = gpt2_config(1, 8, 2, 8, 16);
  const auto run = [&](const NdOptions& options) {
    run_ranks(1, [&](Communicator& world) {
      Mesh mesh(world, {});
      ParallelTransformer(config, mesh, options);
    });
  };
  yotta_test::check_refused(
      {{"NdOptions::sequence is -1", [&] { run({.sequence = -1}); }},
       {"DdpOptions::bucket_bytes is -1", [&] { run({.ddp = {.bucket_bytes = -1}}); }}});
}
