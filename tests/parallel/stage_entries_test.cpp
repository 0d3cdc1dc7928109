#include "yotta/parallel/stage_entries.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("stages have every entry once; those at the ends have the embedding and the head too") {
  const TransformerConfig config = gpt2_config(6, 8, 2, 4, 8);
  for (const bool ends_count : {false, true})
    for (const int stages : {1, 2, 3, 4}) {
      int64_t next = 0;
      for (int stage = 0; stage < stages; ++stage) {
        const StageLayers own = stage_entries(config, stages, stage, ends_count);
        CHECK(own.first == next);
        next = own.last;
      }
      CHECK(next == Transformer::entries(config));
    }
  CHECK(stage_entries(config, 4, 0).last == 3);        // embedding, 0, 1
  CHECK(stage_entries(config, 4, 0, true).last == 2);  // embedding, 0
}

TEST_CASE("of a stage its blocks are checkpointed, or the first of them") {
  const TransformerConfig config = gpt2_config(3, 8, 2, 4, 8);
  const Transformer model(config);
  const auto checkpoints = [&](int64_t most) {
    int64_t count = 0;
    for (const LayerPtr& each : checkpointed_stage(model.stack(), {}, 1, 0, most))
      count += dynamic_cast<Checkpoint*>(each.get()) != nullptr ? 1 : 0;
    return count;
  };
  CHECK(checkpoints(-1) == 3);
  CHECK(checkpoints(2) == 2);
  CHECK(checkpoints(0) == 0);
}
