#include "yotta/model/head.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients of a head with its own matrix, and with a table it shares") {
  const ParameterOptions made{1, DType::f64};
  std::vector<LayerPtr> own, shared;
  own.push_back(std::make_unique<Head>(NormOptions{NormKind::rmsnorm, 4}, 7, normal(1), made));
  check_gradients(own, random_tensor({2, 3, 4}, "x"));
  const ParameterPtr table = make_parameter("table", {7, 4}, true, normal(1), 1, DType::f64);
  shared.push_back(std::make_unique<Head>(NormOptions{NormKind::layernorm, 4}, table, made));
  check_gradients(shared, random_tensor({2, 3, 4}, "x"));
  CHECK(parameters(shared).back() == table);
  CHECK(parameters(own).back()->name == "head.weight");
  CHECK(parameters(own).front()->name == "norm.weight");
}
