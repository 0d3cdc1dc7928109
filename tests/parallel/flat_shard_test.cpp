#include "yotta/parallel/flat_shard.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;

namespace {

// w0 (2, 3), b0 (3), w1 (3, 2): 15 numbers, of value 0, 1, ... in this order.
std::vector<ParameterPtr> make_parameters() {
  std::vector<ParameterPtr> made = {
      make_parameter("w0", {2, 3}, true, zeros(), 0, DType::f64),
      make_parameter("b0", {1, 3}, false, zeros(), 0, DType::f64),
      make_parameter("w1", {3, 2}, true, zeros(), 0, DType::f64),
  };
  double next = 0;
  for (const ParameterPtr& each : made)
    for (double& value : each->value.span<double>()) value = next++;
  return made;
}

}  // namespace

TEST_CASE("the parts of all ranks are the flat array, padded so that they are equal") {
  const FlatLayout layout(make_parameters(), 4);
  CHECK(layout.count() == 15);
  CHECK(layout.size() == 16);
  CHECK(layout.shard_size() == 4);
  std::vector<double> all;
  for (int64_t r = 0; r < 4; ++r)
    for (const double value : layout.copy_part(4 * r, 4 * r + 4).values()) all.push_back(value);
  for (size_t i = 0; i < 15; ++i) CHECK(all[i] == static_cast<double>(i));
  CHECK(all[15] == 0);
}

TEST_CASE("a part's pieces keep name and kind, and are views of it") {
  const FlatLayout layout(make_parameters(), 4);
  Tensor part = layout.copy_part(4, 8);
  const std::vector<ParameterShard> shards = layout.cut_shards(part, 4);
  REQUIRE(shards.size() == 2);
  CHECK(shards[0].parameter->name == "w0");
  CHECK(shards[0].parameter->is_matrix);
  CHECK(shards[0].first == 4);
  CHECK(shards[0].whole == Shape{2, 3});
  CHECK(shards[0].parameter->value.values() == std::vector<double>{4, 5});
  CHECK(shards[1].parameter->name == "b0");
  CHECK_FALSE(shards[1].parameter->is_matrix);
  CHECK(shards[1].first == 0);
  CHECK(shards[1].parameter->value.values() == std::vector<double>{6, 7});
  part.fill(3);
  CHECK(shards[1].parameter->value.values() == std::vector<double>{3, 3});
}

TEST_CASE("every number is in one piece, for any number of ranks") {
  for (const int ranks : {1, 2, 3, 4, 7, 8, 20}) {
    const std::vector<ParameterPtr> parameters = make_parameters();
    const FlatLayout layout(parameters, ranks);
    std::vector<double> seen;
    for (int64_t r = 0; r < ranks; ++r) {
      const int64_t begin = r * layout.shard_size();
      const Tensor part = layout.copy_part(begin, begin + layout.shard_size());
      for (const ParameterShard& shard : layout.cut_shards(part, begin))
        for (const double value : shard.parameter->value.values()) seen.push_back(value);
    }
    REQUIRE(seen.size() == 15);
    for (size_t i = 0; i < 15; ++i) CHECK(seen[i] == static_cast<double>(i));
  }
}

TEST_CASE("values and gradients become views of a flat array, and go again") {
  const std::vector<ParameterPtr> parameters = make_parameters();
  const FlatLayout layout(parameters, 2);
  Tensor flat = layout.copy_part(0, layout.size());
  layout.drop_values();
  CHECK_FALSE(parameters[0]->value.defined());
  layout.set_values(flat);
  layout.set_gradients(flat);
  CHECK(parameters[2]->value.shape() == Shape{3, 2});
  CHECK(parameters[2]->value.item({2, 1}) == 14);
  flat.fill(1);
  CHECK(parameters[1]->grad.item({0}) == 1);
  layout.drop_gradients();
  CHECK_FALSE(parameters[1]->grad.defined());
  CHECK(parameters[1]->value.item({0}) == 1);
}

TEST_CASE("no parameters make an empty layout; two types in one array are refused") {
  const FlatLayout none({}, 4);
  CHECK(none.size() == 0);
  CHECK(none.cut_shards(none.copy_part(0, 0), 0).empty());
  std::vector<ParameterPtr> mixed = make_parameters();
  mixed.push_back(make_parameter("b1", {1, 2}, false, zeros(), 0, DType::f32));
  CHECK_THROWS_WITH_AS(FlatLayout(mixed, 2),
                       doctest::Contains("b1 is f32, and w0 in the same flat array is f64"), Error);
}
