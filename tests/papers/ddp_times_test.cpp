// The step time of data parallelism under the virtual clock: naive, bucketed and overlapped (Li et
// al., VLDB 2020, section 3.2), against closed forms. K equal buckets, each ready after b seconds
// of backward and reduced in c:
//
//     naive        compute + one all_reduce per parameter
//     bucketed     compute + K c
//     overlapped   forward + max(K b + c, b + K c): max(compute, communication), and one bucket
//                  more that nothing can hide: the last bucket's all_reduce if computing is slower,
//                  the first bucket's backward if communication is
#include <doctest/doctest.h>

#include "support/near.hpp"
#include "yotta/comm/collective_choice.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;
using yotta_test::check_seconds;

namespace {

constexpr LinearNetConfig net{12, 96};  // 12 layers of 96 x 96 f32: 36 KiB of gradient a layer
constexpr int64_t rows = 32;
constexpr double layer_bytes = 4.0 * net.width * net.width;
constexpr double forward_seconds = forward_flops(net, rows);         // on 1 FLOP/s
constexpr double layer_backward = 2 * forward_seconds / net.layers;  // dgrad and wgrad

double now() { return context().clock->now(compute_lane).end; }

// Seconds of one step of a linear net on p ranks: forward, backward, gradients reduced.
// layers_a_bucket 0: naive.
double step_seconds(const Cluster& cluster, int p, int64_t layers_a_bucket, bool overlap) {
  double seconds = 0;
  run_on(cluster, p, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    const std::vector<LayerPtr> model = make_linear_net(net);
    DdpOptions options{layers_a_bucket * static_cast<int64_t>(layer_bytes), ReduceOp::sum, overlap};
    std::unique_ptr<Ddp> ddp;
    if (layers_a_bucket > 0) ddp = std::make_unique<Ddp>(parameters(model), world, options);
    world.barrier();
    const double begin = now();
    Saved saved;
    const Tensor x = Tensor::empty({rows, net.width});
    backward(model, forward(model, x, saved), saved);
    if (ddp != nullptr) ddp->finish();
    if (ddp == nullptr) reduce_gradients(parameters(model), world, ReduceOp::sum);
    if (world.rank() == 0) seconds = now() - begin;
  });
  return seconds;
}

// One node of 1 FLOP/s chips on which a message takes alpha + bytes * beta.
Cluster node(AlphaBeta link) {
  Cluster made = ideal(8);
  made.levels[0].alpha = link.alpha;
  made.levels[0].beta = link.beta;
  return made;
}
// A network on which the ring over p ranks takes `share` of a layer's backward for a layer's
// gradient.
AlphaBeta network(int p, double share) {
  const double ring = all_reduce_ring_seconds(p, layer_bytes, {0, 1, 0});
  return {layer_backward * share / 100, layer_backward * share / ring, 0};
}

}  // namespace

TEST_CASE("naive and bucketed: compute, then one all_reduce per parameter or a bucket") {
  for (const int p : {2, 3, 4, 8}) {
    CAPTURE(p);
    const AlphaBeta link = network(p, 0.5);
    const double compute = 3 * forward_seconds;
    check_seconds(step_seconds(node(link), p, 0, false),
                  compute + 12 * all_reduce_ring_seconds(p, layer_bytes, link));
    check_seconds(step_seconds(node(link), p, 3, false),
                  compute + 4 * all_reduce_ring_seconds(p, 3 * layer_bytes, link));
  }
}

TEST_CASE("overlapped: max(compute, communication) and one bucket that nothing hides") {
  for (const int p : {2, 4, 8})
    for (const int64_t a_bucket : {1, 2, 3, 4, 6, 12})
      for (const double share : {0.01, 0.5, 0.9, 1.5, 4.0}) {
        CAPTURE(p);
        CAPTURE(a_bucket);
        CAPTURE(share);
        const AlphaBeta link = network(p, share);
        const double buckets = static_cast<double>(net.layers / a_bucket);
        const double b = static_cast<double>(a_bucket) * layer_backward;
        const double c =
            all_reduce_ring_seconds(p, static_cast<double>(a_bucket) * layer_bytes, link);
        check_seconds(step_seconds(node(link), p, a_bucket, true),
                      forward_seconds + std::max(buckets * b + c, b + buckets * c));
      }
}

TEST_CASE("a bucket count that does not divide: the last bucket is smaller, and closes sooner") {
  const AlphaBeta link = network(4, 0.8);
  const double b = layer_backward;
  const double five = all_reduce_ring_seconds(4, 5 * layer_bytes, link);
  const double two = all_reduce_ring_seconds(4, 2 * layer_bytes, link);
  double communication = 0;  // when the lane is free again, from the start of backward
  for (const auto& [ready, c] : {std::pair{5 * b, five}, {10 * b, five}, {12 * b, two}})
    communication = std::max(communication, ready) + c;
  check_seconds(step_seconds(node(link), 4, 5, true), forward_seconds + communication);
}

TEST_CASE(
    "one H100 node: a ring; two: what is chosen for all of their cards, faster than one ring") {
  Cluster one = cluster_named("h100x8"), two = cluster_named("h100x16");
  const auto link = [](const Level& level) { return AlphaBeta{level.alpha, level.beta, 0}; };
  const double in_node = step_seconds(one, 8, 4, false) - step_seconds(one, 1, 4, false);
  check_seconds(in_node, 3 * all_reduce_ring_seconds(8, 4 * layer_bytes, link(one.levels[0])));
  const double across = step_seconds(two, 16, 4, false) - step_seconds(two, 1, 4, false);
  const GroupNetwork both = group_network(two, std::vector<ChipAxis>{{1, 16}}, 16);
  check_seconds(across, 3 * collective_seconds(Operation::all_reduce, both, 4 * layer_bytes));
  CHECK(across < 3 * all_reduce_ring_seconds(16, 4 * layer_bytes, link(two.levels[1])));
}
