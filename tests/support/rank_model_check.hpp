// What a rank trains, compared with the serial model.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "yotta/model/rank_model.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta_test {

using namespace yotta;

// What a checkpoint relies on: one tensor for each parameter, and the serial model's names, shapes
// and values.
inline void check_model(RankModel& model, const Communicator& world, const Transformer& serial) {
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

}  // namespace yotta_test
