#include "yotta/model/whole_tensors.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

Tensor counting(const Shape& shape) {
  Tensor made = Tensor::empty(shape, DType::f64);
  for (int64_t i = 0; i < made.numel(); ++i) made.data<double>()[i] = static_cast<double>(i + 1);
  return made;
}

ParameterPtr parameter(const char* name, const ShardRange& part, bool is_matrix) {
  return make_parameter(name, part, is_matrix, zeros(), 0, DType::f64);
}

}  // namespace

TEST_CASE(
    "parts over tp, runs of FSDP or ZeRO, copies and tied stages: gathered, each number once; and "
    "back") {
  const std::vector<WholeShape> shapes = {{"table", {8, 3}}, {"norm", {5}}, {"last", {2, 2}}};
  std::vector<NamedTensor> whole;
  for (const WholeShape& each : shapes) whole.push_back({each.name, counting(each.shape)});
  for (const RunAxes& runs :
       {RunAxes{}, RunAxes{Axis::cp, Axis::dp_shard}, RunAxes{Axis::cp, Axis::dp_replicate}}) {
    const Axis cut = runs.empty() ? Axis::dp_shard : runs[1];
    MeshShape shape{.tp = 2, .pp = 2, .dp_replicate = 2};
    if (!runs.empty()) shape[cut] = 3;
    run_ranks(static_cast<int>(shape.ranks()), [&](Communicator& world) {
      Mesh mesh(world, shape);
      const int64_t tp = mesh.coordinate(Axis::tp), shard = mesh.coordinate(cut);
      std::vector<Held> held;
      std::vector<Tensor> values;
      const auto hold = [&](const ParameterPtr& each) {  // all of it, or a run
        const int64_t n = each->value.numel(), p = runs.empty() ? 1 : 3;
        held.push_back({each, chunk_begin(n, p, shard)});
        values.push_back(Tensor::zeros({chunk_count(n, p, shard)}, DType::f64));
      };
      hold(parameter("table", {4, 3, 4 * tp, 0, 8, 3}, true));  // both stages hold it: tied
      if (mesh.coordinate(Axis::pp) == 0) hold(parameter("norm", {1, 5}, false));
      if (mesh.coordinate(Axis::pp) == 1) hold(parameter("last", {2, 1, 0, tp, 2, 2}, true));
      take_held(whole, held, values);
      CHECK(values[0].values().front() == static_cast<double>(12 * tp + held[0].first + 1));
      const std::vector<NamedTensor> all =
          gather_whole(shapes, held, values, DType::f64, runs, mesh);
      CHECK(all.size() == (world.rank() == 0 ? 3 : 0));
      for (size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].name == shapes[i].name);
        check_equal(all[i].value, whole[i].value, all[i].name);
      }
    });
  }
}

TEST_CASE("a tensor that is not there is named") {
  std::vector<Tensor> values = {Tensor::zeros({3}, DType::f64)};
  const std::vector<Held> held = {{parameter("norm", {1, 3}, false), 0}};
  CHECK(contains(message_of([&] { take_held({}, held, values); }),
                 "no tensor for the parameter norm"));
}

TEST_CASE("whole tensors of other names, shapes or kinds are refused, and so is NaN") {
  const std::vector<WholeShape> shapes = {{"table", {8, 3}}, {"norm", {5}}};
  const NamedTensor table{"table", Tensor::zeros({8, 3})}, norm{"norm", Tensor::zeros({5})};
  const auto said = [&](const std::vector<NamedTensor>& whole) {
    return message_of([&] { expect_whole("the file", shapes, whole); });
  };
  CHECK(said({norm, table}) == "nothing was thrown");
  CHECK(contains(said({norm}), "the file lacks 1 tensors of this model (table)"));
  CHECK(contains(said({norm, table, {"bogus", norm.value}}),
                 "that this model does not have (bogus)"));
  CHECK(contains(said({norm, {"table", Tensor::zeros({3, 8})}}),  // as many numbers
                 "the file: 'table' is (3, 8) f32, expected (8, 3) f32"));
  CHECK(contains(said({table, {"norm", Tensor::zeros({5}, DType::i32)}}),
                 "'norm' is (5) i32, expected (5) f32"));
  CHECK(contains(said({table, {"norm", Tensor::full({5}, NAN)}}), "'norm' is not finite"));
}
