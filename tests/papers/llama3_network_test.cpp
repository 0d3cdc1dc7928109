// "The Llama 3 Herd of Models" (arXiv 2407.21783), 3.3.1 and 3.3.2: the network, and what its
// layout [TP, CP, PP, DP] puts where. 16,384 GPUs are 16 threads here, one a pipeline stage.
#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

namespace {

constexpr MeshShape row_two{.tp = 8, .cp = 1, .pp = 16, .dp_shard = 128};  // table 4, 16,384 GPUs
constexpr int64_t parameters_405b = 405'853'388'800;

// The chips of the ranks along an axis of the mesh, from `chip` on.
std::vector<int> along(const MeshShape& shape, Axis axis, int chip, int count) {
  std::vector<int> chips;
  for (int i = 0; i < count; ++i) chips.push_back(chip + i * stride(shape, axis));
  return chips;
}

}  // namespace

TEST_CASE("3.3.1: 16 GPUs a rack, 192 racks a pod, 8 pods, 1:7 between pods, 400 Gb/s a GPU") {
  const Cluster c = llama3_24k();
  CHECK(c.levels[1].chips == 16);
  CHECK(c.levels[2].chips / c.levels[1].chips == 192);
  CHECK(c.levels[3].chips / c.levels[2].chips == 8);
  CHECK(c.size() == 24'576);
  CHECK(1 / c.link(0, 8).beta == doctest::Approx(400e9 / 8));
  CHECK(c.link(0, 3072).beta / c.link(0, 3071).beta == doctest::Approx(7));
}

TEST_CASE("3.3.2: with 2 x 2 x 2 x 2, GPUs 0 and 1 share TP, 0 and 2 CP, 0 and 4 PP, 0 and 8 DP") {
  const MeshShape shape{.tp = 2, .cp = 2, .pp = 2, .dp_shard = 2};
  CHECK(along(shape, Axis::tp, 0, 2) == std::vector<int>{0, 1});
  CHECK(along(shape, Axis::cp, 0, 2) == std::vector<int>{0, 2});
  CHECK(along(shape, Axis::pp, 0, 2) == std::vector<int>{0, 4});
  CHECK(along(shape, Axis::dp_shard, 0, 2) == std::vector<int>{0, 8});
}

TEST_CASE("table 4, row 2: TP stays in a node, stages in a pod, and DP crosses pods") {
  const Cluster c = llama3_24k();
  CHECK(row_two.ranks() == 16'384);
  for (const int chip : along(row_two, Axis::tp, 0, 8)) CHECK(c.link(0, chip).level <= 0);
  for (const int chip : along(row_two, Axis::pp, 0, 16)) CHECK(c.link(0, chip).level <= 2);
  CHECK(c.link(0, along(row_two, Axis::dp_shard, 0, 128).back()).level == 3);
  CHECK(unequal_links(c, along(row_two, Axis::dp_shard, 0, 24)).empty());  // 3072 GPUs: one pod
  CHECK(contains(unequal_links(c, along(row_two, Axis::dp_shard, 0, 128)),
                 "chips 0 and 3072 talk over the cluster"));
}

TEST_CASE(
    "16,384 GPUs in 16 threads: a stage's gradients over DP, its activations over TP and PP") {
  const Cluster c = cluster_named("h100x16384");
  const std::vector<int> live = along(row_two, Axis::pp, 0, 16);
  const int64_t held = parameters_405b / (8 * 16);
  REQUIRE(held % 128 == 0);
  const Timed run = run_on(c, 16,
                           [&](Communicator& stages) {
                             const DeviceScope meta(Device::meta);
                             const int chip = live[static_cast<size_t>(stages.rank())];
                             Communicator tp = stages.mirrored(along(row_two, Axis::tp, chip, 8));
                             Communicator dp =
                                 stages.mirrored(along(row_two, Axis::dp_shard, chip, 128));
                             Tensor gradients = Tensor::empty({held}, DType::bf16);
                             Tensor mine = Tensor::empty({held / 128}, DType::bf16);
                             dp.reduce_scatter(mine, gradients, ReduceOp::sum, {Algorithm::ring});
                             Tensor x = Tensor::empty({8192, 16384}, DType::bf16);
                             if (stages.rank() > 0) stages.recv(x, stages.rank() - 1);
                             tp.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
                             if (stages.rank() < 15) stages.send(x, stages.rank() + 1);
                           },
                           {.trace = false, .chips = live});
  const AlphaBeta inside{c.levels[0].alpha, c.levels[0].beta, 0};
  const AlphaBeta between{c.levels[1].alpha, c.levels[1].beta, 0};
  const double activations = 2.0 * 8192 * 16384;
  const double gradients =
      reduce_scatter_ring_seconds(128, 2.0 * static_cast<double>(held), between);
  const double expected = gradients + 16 * all_reduce_ring_seconds(8, activations, inside) +
                          15 * (between.alpha + activations * between.beta);
  CHECK(std::abs(run.seconds() - expected) <= 1e-12 * expected);
  CHECK(gradients == doctest::Approx(0.126).epsilon(0.01));
  // On the real network the rings of DP are not in step: they cross pods.
  CHECK(contains(message_of([&] {
                   run_on(llama3_24k(), 1, [&](Communicator& world) {
                     world.mirrored(along(row_two, Axis::dp_shard, 0, 128));
                   });
                 }),
                 "these 128 chips cannot be mirrored"));
}
