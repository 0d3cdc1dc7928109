#include "yotta/model/rank_model.hpp"

#include <doctest/doctest.h>

#include "support/rank_model_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/nd_parallel.hpp"

using namespace yotta;

TEST_CASE("what a rank of a mesh trains says which part of the serial model it is") {
  const TransformerConfig config = gpt2_config(3, 8, 2, 8, 11);
  const Transformer serial(config);
  run_ranks(4, [&](Communicator& world) {
    Mesh mesh(world, {.pp = 2, .dp_replicate = 2});
    NdParallel model(config, mesh);
    yotta_test::check_model(model, world, serial);
  });
}
