// The table of gradients, held to the gradients themselves: each rank's, before anything is
// reduced.
#include "yotta/parallel/gradient_groups.hpp"

#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/machine/clock.hpp"
#include "yotta/model/pipelined.hpp"
#include "yotta/parallel/parallelize.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Axes = std::vector<Axis>;
constexpr int64_t B = 4, T = 8, V = 24;
constexpr auto tp = Axis::tp, cp = Axis::cp, pp = Axis::pp, ep = Axis::ep, fsdp = Axis::dp_shard,
               dp = Axis::dp_replicate;

TransformerConfig config_of(Dialect dialect, bool tied) {
  TransformerConfig c =
      dialect == Dialect::gpt2 ? gpt2_config(2, 16, 4, T, V) : llama_config(2, 16, 24, 4, 4, T, V);
  c.tied = tied;
  c.deviation = 0.3;
  c.dtype = DType::f64;
  return c;
}

Tensor ids(const char* name) {
  Tensor made = Tensor::empty({B, T}, DType::i32);
  const Random random(26, name);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data<int32_t>()[i] =
        static_cast<int32_t>(random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(V)));
  return made;
}

// A rank's gradients of its own tokens, of its own pieces of its stage's layers: nothing is summed
// over cp, pp or dp.
ParameterPtrs own_gradients(const TransformerConfig& config, Mesh& mesh, bool shares_tokens) {
  const StageLayers entries = stage_entries(config, mesh.size(pp), mesh.coordinate(pp));
  Transformer model(config, entries.first, entries.last);
  parallelize(model, mesh, {.sequence_parallel = shares_tokens});
  const int64_t own = B / mesh.dp().size(), first = own * mesh.dp().rank();
  const auto part = [&](const Tensor& whole) {
    return context_shard(whole.rows(first, first + own), mesh[cp]);
  };
  const std::vector<Microbatch> batches =
      microbatches(part(ids("in")), part(ids("out")), 2, first, context_positions(T, mesh[cp]));
  PipelinedStep step;
  step.width = config.width, step.dtype = config.dtype, step.loss = loss_on(mesh, config);
  if (shares_tokens && mesh.size(tp) > 1) step.tokens = mesh[tp];
  Pipeline pipeline(mesh[pp], {model.stack()});
  run_pipelined(pipeline, mesh.size(pp), step, {}, batches, B * T);
  return parameters(model.stack());
}

using ByRank = std::vector<std::map<std::string, ParameterPtr>>;

ByRank run(const TransformerConfig& config, const MeshShape& shape, bool shares_tokens) {
  ByRank all(static_cast<size_t>(shape.ranks()));
  RunOptions options;
  options.threads = 1;
  run_ranks(
      static_cast<int>(shape.ranks()),
      [&](Communicator& world) {
        Mesh mesh(world, shape);
        for (const ParameterPtr& each : own_gradients(config, mesh, shares_tokens))
          all[static_cast<size_t>(world.rank())][each->name] = each;
      },
      options);
  return all;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    largest = std::max(largest, std::abs(a.data<double>()[i] - b.data<double>()[i]));
  return largest;
}

// What the table says of one parameter on one rank, held to the gradients of the ranks along each
// axis.
void check_axis(const ByRank& all, int rank, const ParameterPtr& own, Axis axis,
                const Spreading& spread) {
  const Along along = gradient_along(axis, *own, spread);
  CAPTURE(std::string(name(axis)));
  CAPTURE(std::string(name(along)));
  const std::vector<int> group = group_of(spread.shape, rank, Axes{axis});
  for (const int other : group) {
    const auto& held = all[static_cast<size_t>(other)];
    if (other == rank) continue;
    if (along == Along::alone) CHECK(!held.contains(own->name));
    if (!held.contains(own->name)) continue;
    const Parameter& theirs = *held.at(own->name);
    const bool has_zero_gradient = own->name.ends_with("attention.k.bias");
    CHECK((own->range == theirs.range) == (along != Along::piece));
    if (along == Along::copy) CHECK(largest_difference(own->grad, theirs.grad) <= 1e-14);
    if (along == Along::part && !has_zero_gradient)
      CHECK(largest_difference(own->grad, theirs.grad) > 1e-6);
  }
}

// The parts that the table names, added up, are the gradient of the serial model.
void check_sum(const ByRank& all, int rank, const ParameterPtr& own, const Tensor& whole,
               const Spreading& spread) {
  Tensor sum = Tensor::zeros(own->grad.shape(), DType::f64), expected = sum.clone();
  for (const int member : group_of(spread.shape, rank, summed_over(*own, spread))) {
    const auto& held = all[static_cast<size_t>(member)];
    if (!held.contains(own->name)) continue;  // a stage between the ends
    for (int64_t i = 0; i < sum.numel(); ++i)
      sum.data<double>()[i] += held.at(own->name)->grad.data<double>()[i];
  }
  take_shard(whole, own->range, expected);
  check_equal(sum, expected, own->name, 1e-13);
}

void check_table(const TransformerConfig& config, const MeshShape& shape, bool shares_tokens) {
  const ByRank serial = run(config, {}, false), all = run(config, shape, shares_tokens);
  Spreading spread{shape, shares_tokens};
  if (config.tied && shape.pp > 1) spread.on_both_ends = tied_table;
  size_t held = 0;
  for (int rank = 0; rank < shape.ranks(); ++rank)
    for (const auto& [name, own] : all[static_cast<size_t>(rank)]) {
      const std::string where =
          fmt::format("{}, {}, rank {}, {}, tokens shared {}", describe(shape),
                      yotta::name(config.dialect), rank, name, shares_tokens);
      CAPTURE(where);
      for (const Axis axis : all_axes)
        if (shape[axis] > 1) check_axis(all, rank, own, axis, spread);
      check_sum(all, rank, own, serial[0].at(name)->grad, spread);
      ++held;
    }
  CHECK(held >= serial[0].size());
}

}  // namespace

TEST_CASE("every parameter's gradient is the sum that the table says, on every axis and mixture") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {false, true}) {
      const TransformerConfig config = config_of(dialect, tied);
      for (const MeshShape shape : {MeshShape{.tp = 2}, MeshShape{.cp = 2}, MeshShape{.pp = 2},
                                    MeshShape{.dp_replicate = 2}, MeshShape{.tp = 2, .cp = 2},
                                    MeshShape{.tp = 2, .pp = 2, .dp_shard = 2},
                                    MeshShape{.cp = 2, .pp = 2, .dp_replicate = 2}})
        for (const bool shares_tokens : {false, true})
          if (!shares_tokens || shape.tp > 1) check_table(config, shape, shares_tokens);
    }
}

TEST_CASE("experts' gradients are not summed over ep, all others' are") {
  TransformerConfig config = config_of(Dialect::llama, false);
  config.mixture = {.experts = 4, .top_k = 2};
  for (const MeshShape shape : {MeshShape{.ep = 2}, MeshShape{.ep = 2, .dp_replicate = 2},
                                MeshShape{.tp = 2, .ep = 2}, MeshShape{.cp = 2, .ep = 2}})
    for (const bool shares_tokens : {false, true})
      if (!shares_tokens || shape.tp > 1) check_table(config, shape, shares_tokens);
}

TEST_CASE("the 16 GPUs of Llama 3's paper: coordinates and groups, rank by rank") {
  const MeshShape shape{.tp = 2, .cp = 2, .pp = 2, .dp_shard = 2};
  CHECK(coordinates_of(shape, 13) == Coordinates{1, 0, 1, 0, 1, 0});
  CHECK(group_of(shape, 0, Axes{tp}) == std::vector{0, 1});
  CHECK(group_of(shape, 0, Axes{cp}) == std::vector{0, 2});
  CHECK(group_of(shape, 0, Axes{pp}) == std::vector{0, 4});
  CHECK(group_of(shape, 0, Axes{fsdp}) == std::vector{0, 8});
  CHECK(group_of(shape, 13, Axes{cp, fsdp}) == std::vector{5, 7, 13, 15});
  CHECK(contains(message_of([&] { coordinates_of(shape, 16); }),
                 "tp 2 x cp 2 x pp 2 x fsdp 2 has ranks 0 to 15, not 16"));
  CHECK(contains(message_of([&] { group_of(shape, -1, Axes{tp}); }), "has ranks 0 to 15, not -1"));
}

TEST_CASE("groups are those of the mesh's communicators, and coordinates go there and back") {
  for (const MeshShape shape : {MeshShape{}, MeshShape{.tp = 3, .dp_replicate = 2},
                                MeshShape{.cp = 2, .pp = 3}, MeshShape{2, 1, 2, 1, 1, 2}})
    run_ranks(static_cast<int>(shape.ranks()), [&](Communicator& world) {
      Mesh mesh(world, shape);
      CHECK(rank_at(shape, coordinates_of(shape, world.rank())) == world.rank());
      for (const Axis axis : all_axes)
        CHECK(group_of(shape, world.rank(), Axes{axis}) == mesh[axis].members());
      CHECK(group_of(shape, world.rank(), Axes{cp, dp}) == mesh.along({cp, dp}).members());
    });
}

TEST_CASE("the communicators of a step: what each technique sums over") {
  const MeshShape shape{2, 2, 2, 1, 2, 2};
  const SumAxes ddp = sum_axes({.shape = shape});
  CHECK(ddp.data == Axes{cp, dp});
  CHECK(ddp.squares == Axes{tp, pp});
  CHECK(ddp.runs.empty());
  const SumAxes with_fsdp = sum_axes({.shape = shape, .sharded = true});
  CHECK(with_fsdp.shards == Axes{cp, fsdp});
  CHECK(with_fsdp.data == Axes{dp});
  CHECK(with_fsdp.squares == Axes{tp, pp, cp, fsdp});
  const SumAxes zero = sum_axes({.shape = shape, .sharded_states = true});
  CHECK(zero.runs == Axes{cp, dp});
  CHECK(zero.squares == Axes{tp, pp, cp, dp});
  for (const SumAxes& each : {ddp, with_fsdp, zero}) CHECK(each.loss == Axes{cp, pp, fsdp, dp});
  CHECK(loss_weight(shape, 10) == 1.0 / 80);
  const SumAxes experts = sum_axes({.shape = {.ep = 2, .dp_replicate = 2}, .sharded_states = true});
  CHECK(experts.data == Axes{cp, dp, ep});
  CHECK(experts.experts == Axes{cp, dp});
  CHECK(experts.loss == Axes{cp, pp, fsdp, dp, ep});
  CHECK(experts.runs == Axes{cp, dp, ep});
  CHECK(experts.squares == Axes{tp, pp, cp, dp, ep});
}

TEST_CASE("a mesh on nodes: what talks most sits closest") {
  const Cluster c = llama3_24k();
  const MeshShape shape{.tp = 8, .cp = 1, .pp = 16, .dp_shard = 128};
  CHECK(slowest_link(c, shape, tp).level == 0);
  CHECK(slowest_link(c, shape, cp).level == -1);
  CHECK(slowest_link(c, shape, pp).level == 2);
  CHECK(slowest_link(c, shape, fsdp).level == 3);
  const AxisOrder pp_inside = {pp, tp, cp, ep, fsdp, dp};
  CHECK(slowest_link(c, shape, tp, pp_inside).level == 2);
  const AxisBytes bytes = {200e9, 0, 5e9, 0, 20e9, 0};
  CHECK(seconds_of_order(c, shape, bytes, all_axes) ==
        doctest::Approx(200e9 / 450e9 + 5e9 / 50e9 + 20e9 * 7 / 50e9));
  CHECK(best_order(cluster_named("h100x16384"), shape, bytes) == all_axes);
  CHECK(best_order(c, shape, bytes) ==
        AxisOrder{tp, cp, fsdp, ep, pp, dp});  // pp sends less than fsdp
  const Cluster nodes = cluster_named("h100x64");
  const MeshShape small{.tp = 8, .pp = 4, .dp_replicate = 2};
  const AxisOrder order = best_order(nodes, small, {1e9, 0, 200e9, 0, 0, 0});
  CHECK(slowest_link(nodes, small, pp, order).level == 0);
  CHECK(slowest_link(nodes, small, tp, order).level == 1);
  // A stage of pp that crosses a pod's border somewhere: dp 1 of [8, 16, 16, 8] does, dp 0 does
  // not.
  const MeshShape row_three{.tp = 8, .cp = 16, .pp = 16, .dp_replicate = 8};
  CHECK(c.link(0, 15 * 128).level == 2);
  CHECK(slowest_link(c, row_three, pp).level == 3);
}

TEST_CASE("a cluster as a mesh sees it can be mirrored along every axis") {
  const Cluster c = llama3_24k();
  const auto refusal = [&](const MeshShape& shape, const Axes& axes) {
    const Cluster seen = as_seen_by(shape, c);
    return message_of(
        [&] { VirtualClock(seen, 0).mirror(group_of(shape, 0, axes), Where::current()); });
  };
  const MeshShape without_cp{.tp = 8, .pp = 16, .dp_replicate = 128};
  const Cluster seen = as_seen_by(without_cp, c);
  REQUIRE(seen.levels.size() == 3);
  CHECK(seen.levels[1].chips == 128);
  CHECK(seen.levels[1].beta == c.levels[2].beta);
  CHECK(seen.levels[2].chips == 16384);
  CHECK(seen.levels[2].beta == c.levels[3].beta);
  // FSDP over 4 nodes has 8 ranks in each; tp 3 does not fill a node, and is the node then.
  const Cluster nodes = cluster_named("h100x96");
  CHECK(as_seen_by({.dp_shard = 32}, nodes).levels[0].chips == 8);
  CHECK(as_seen_by({.tp = 3, .dp_shard = 32}, nodes).levels.size() == 1);
  CHECK(as_seen_by({.tp = 2, .dp_shard = 6}, nodes).levels[0].chips == 2);
  CHECK(as_seen_by({.tp = 2, .pp = 8}, nodes).levels[0].chips == 2);  // stages one by one
  for (const MeshShape shape :
       {without_cp, MeshShape{8, 16, 16, 1, 1, 8}, MeshShape{4, 2, 2, 1, 2, 3}})
    for (const Axes& axes : {Axes{tp}, Axes{cp}, Axes{pp}, Axes{fsdp}, Axes{dp}, Axes{cp, dp}})
      CHECK(refusal(shape, axes) == "nothing was thrown");
  // With ep a gradient is summed over ep and dp together, the router's loads over fsdp too.
  for (const MeshShape shape : {MeshShape{8, 1, 16, 8, 1, 16}, MeshShape{4, 1, 2, 2, 8, 3}})
    for (const Axes& axes : {Axes{tp}, Axes{ep}, Axes{dp}, Axes{ep, dp}, Axes{ep, fsdp, dp}})
      CHECK(refusal(shape, axes) == "nothing was thrown");
  CHECK(contains(message_of([] { as_seen_by({.tp = 2}, cluster_named("v5px8")); }), "a torus"));
}
