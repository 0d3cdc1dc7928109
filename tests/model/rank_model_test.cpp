#include "yotta/model/rank_model.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/model/rerouted_model.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;

namespace {

// What a checkpoint relies on: one tensor for each parameter, and the serial model's names, shapes
// and values.
void check_model(RankModel& model, const Communicator& world, const Transformer& serial) {
  const std::vector<ParameterPtr> own = model.parameters(), whole = parameters(serial.stack());
  REQUIRE(own.size() == model.held().size());
  for (size_t i = 0; i < own.size(); ++i) CHECK(model.held()[i].parameter == own[i]);
  CHECK(own.size() < whole.size());  // a stage
  const std::vector<WholeShape> shapes = model.shapes();
  const std::vector<NamedTensor> weights = model.gather_weights();
  REQUIRE(shapes.size() == whole.size());
  REQUIRE(weights.size() == (world.rank() == 0 ? whole.size() : 0));
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK((shapes[i].name == whole[i]->name && shapes[i].shape == whole[i]->value.shape()));
    if (world.rank() > 0) continue;
    CHECK(weights[i].name == whole[i]->name);
    CHECK(weights[i].value.values() == whole[i]->value.values());
  }
}

}  // namespace

TEST_CASE("what a rank trains says which part of the serial model it is, on a mesh and rerouted") {
  const TransformerConfig config = gpt2_config(3, 8, 2, 8, 11);
  const Transformer serial(config);
  run_ranks(4, [&](Communicator& world) {
    Mesh mesh(world, {.pp = 2, .dp_replicate = 2});
    NdParallel on_mesh(config, mesh);
    check_model(on_mesh, world, serial);
    ReroutedModel rerouted(config, {2, 2, 1}, {}, world);
    check_model(rerouted, world, serial);
  });
}
