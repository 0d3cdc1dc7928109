#include "yotta/parallel/ddp.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/collectives_multi_rail.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/zero.hpp"

using namespace yotta;
using yotta_test::append;
using yotta_test::check_equal;
using yotta_test::contains;
using yotta_test::message_of;

namespace {

constexpr LinearNetConfig net = {5, 6};
constexpr int64_t rows = 13;  // does not divide by 2, 3, 4 or 8
constexpr double rate = 0.05;

enum class How { naive, bucketed, overlapped };

// A step's batch and its passes, at the sizes of this test.
Tensor batch_rows(const char* name, int64_t step, int64_t begin, int64_t end) {
  return yotta_test::batch_rows(name, step, begin, end, net.width);
}
void run_microbatch(Layers layers, int64_t step, int64_t begin, int64_t end) {
  yotta_test::run_microbatch(layers, step, begin, end, net.width, rows);
}

struct Outcome {
  std::vector<double> gradients, weights;  // gradients of the first step, weights after all
};

void take_step(const std::vector<ParameterPtr>& parameters) {
  for (const ParameterPtr& each : parameters)
    for (int64_t i = 0; i < each->value.numel(); ++i)
      each->value.data<double>()[i] -= rate * each->grad.data<double>()[i];
}

// Three steps of rank `world.rank()`'s share of the batch, cut in `microbatches`.
Outcome train(Communicator& world, How how, int64_t bucket_bytes, int64_t microbatches,
              CommOptions comm = {}) {
  const uint64_t seed = how == How::naive ? 1 : 1 + static_cast<uint64_t>(world.rank());
  const std::vector<LayerPtr> layers = make_linear_net(net, {seed, DType::f64});
  const std::vector<ParameterPtr> all = parameters(Layers(layers));
  std::optional<Ddp> ddp;
  if (how != How::naive)
    ddp.emplace(all, world, DdpOptions{bucket_bytes, ReduceOp::sum, how == How::overlapped, comm});
  Outcome outcome;
  for (int64_t step = 0; step < 3; ++step) {
    zero_gradients(layers);
    const int64_t first = chunk_begin(rows, world.size(), world.rank());
    const int64_t count = chunk_count(rows, world.size(), world.rank());
    for (int64_t i = 0; i < microbatches; ++i) {
      std::optional<Ddp::NoSync> quiet;
      if (ddp && i + 1 < microbatches) quiet.emplace(*ddp);
      run_microbatch(layers, step, first + chunk_begin(count, microbatches, i),
                     first + chunk_begin(count, microbatches, i + 1));
    }
    if (ddp)
      ddp->finish();
    else
      reduce_gradients(all, world, ReduceOp::sum);
    for (const ParameterPtr& each : all)
      if (step == 0) append(outcome.gradients, each->grad);
    take_step(all);
  }
  for (const ParameterPtr& each : all) append(outcome.weights, each->value);
  return outcome;
}

std::vector<Outcome> train_on(int ranks, How how, int64_t bucket_bytes, int64_t microbatches,
                              CommOptions comm = {}) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& world) {
    outcomes[static_cast<size_t>(world.rank())] =
        train(world, how, bucket_bytes, microbatches, comm);
  });
  return outcomes;
}

constexpr int64_t one_weight = net.width * net.width * 8;  // bytes of a gradient

}  // namespace

TEST_CASE("gradients and weights equal the single rank's, however they are reduced") {
  const Outcome serial = train_on(1, How::naive, 0, 1).front();
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const How how : {How::naive, How::bucketed, How::overlapped})
      for (const int64_t bucket_bytes : {int64_t{1}, 2 * one_weight, int64_t{1} << 20})
        for (const int64_t microbatches : {1, 2}) {
          CAPTURE(ranks);
          CAPTURE(bucket_bytes);
          for (const Outcome& rank : train_on(ranks, how, bucket_bytes, microbatches)) {
            check_equal(rank.gradients, serial.gradients, ranks, "gradients");
            check_equal(rank.weights, serial.weights, ranks, "weights after 3 steps");
          }
        }
}

TEST_CASE("the algorithm of the all_reduces is a choice, and changes no gradient") {
  const Outcome serial = train_on(1, How::naive, 0, 1).front();
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const Algorithm algorithm :
         {Algorithm::ring, Algorithm::multi_rail, Algorithm::hierarchical, Algorithm::pipelined}) {
      const int node = ranks % 2 == 0 ? 2 : ranks;
      for (const Outcome& rank : train_on(ranks, How::overlapped, 2 * one_weight, 2,
                                          {algorithm, "no label of Ddp's", node})) {
        check_equal(rank.gradients, serial.gradients, ranks, name(algorithm));
        check_equal(rank.weights, serial.weights, ranks, name(algorithm));
      }
    }
}

TEST_CASE("on two nodes DDP hides its gradients with one ring per card, and not with one ring") {
  // Layers of 4096 x 4096 in f32: 64 MiB of gradients each, on 16 H100.
  const auto seconds = [](bool sends, CommOptions comm) {
    return run_on(cluster_named("h100x16"), 16,
                  [&](Communicator& world) {
                    const DeviceScope meta(Device::meta);
                    const std::vector<LayerPtr> layers = make_linear_net({6, 4096});
                    std::optional<Ddp> ddp;
                    if (sends)
                      ddp.emplace(parameters(Layers(layers)), world,
                                  DdpOptions{1 << 26, ReduceOp::sum, true, comm});
                    Saved saved;
                    const Tensor x = Tensor::empty({768, 4096});
                    backward(layers, forward(layers, x, saved), saved);
                    if (ddp) ddp->finish();
                    const Traffic traffic = context().ledger.traffic("ddp.gradients");
                    if (sends && traffic.messages_sent == 0) fail(Where::current(), "nothing sent");
                  })
        .seconds();
  };
  const double alone = seconds(false, {});
  const double one_ring = seconds(true, {Algorithm::ring});
  const double bucket =
      all_reduce_multi_rail_seconds(1 << 26, {16}, {1e-6, 1 / 450e9, 0}, {5e-6, 1 / 50e9, 0});
  for (const Algorithm algorithm : {Algorithm::multi_rail, Algorithm::hierarchical}) {
    const double hidden = seconds(true, {algorithm});
    CHECK(hidden >= alone);
    CHECK(hidden <= alone + 2 * bucket);  // the last bucket, and what is between
    CHECK(one_ring >= 1.5 * hidden);
  }
}

TEST_CASE(
    "all ranks together send exactly 2(p-1) times the gradients, under a label of their own") {
  const int64_t gradient_bytes = net.layers * one_weight;
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const How how : {How::naive, How::bucketed, How::overlapped}) {
      std::vector<int64_t> sent(static_cast<size_t>(ranks));
      run_ranks(ranks, [&](Communicator& world) {
        train(world, how, 2 * one_weight, 2);
        const Ledger& ledger = context().ledger;
        sent[static_cast<size_t>(world.rank())] = ledger.traffic("ddp.gradients").bytes_sent;
      });
      const int64_t all = std::accumulate(sent.begin(), sent.end(), int64_t{0});
      CHECK(all == 3 * ddp_bytes_sent_by_all(ranks, gradient_bytes));
    }
}

TEST_CASE("buckets are filled in backward's order, and gradients are views into them") {
  const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
  const std::vector<ParameterPtr> all = parameters(Layers(layers));
  const std::deque<Bucket> buckets = make_buckets(all, 2 * one_weight);
  REQUIRE(buckets.size() == 3);  // 5 weights, two a bucket
  CHECK(buckets[0].parameters == std::vector<ParameterPtr>{all[4], all[3]});
  CHECK(buckets[2].parameters == std::vector<ParameterPtr>{all[0]});
  for (const Bucket& bucket : buckets)
    for (const ParameterPtr& each : bucket.parameters) CHECK(each->grad.shares_memory(bucket.flat));
  all[3]->grad.fill(7);
  CHECK(buckets[0].flat.item({2 * net.width * net.width - 1}) == 7);
  CHECK(make_buckets(all, 1).size() == 5);
}

TEST_CASE("buckets of no bytes are refused, by DDP and by ZeRO") {
  const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
  const std::vector<ParameterPtr> all = parameters(Layers(layers));
  for (const int64_t bytes : {-1, 0}) {
    const std::string words =
        fmt::format("buckets of {} bytes of gradients: bucket_bytes is", bytes);
    const auto says = [&](auto&& make) {
      return contains(message_of([&] { run_ranks(1, make); }), words);
    };
    CHECK(says([&](Communicator& world) { Ddp ddp(all, world, {.bucket_bytes = bytes}); }));
    CHECK(says([&](Communicator& world) { Zero zero(all, world, {.bucket_bytes = bytes}); }));
  }
}

TEST_CASE("overlapped buckets leave during backward, in order; the others wait for finish()") {
  for (const bool overlap : {false, true})
    run_ranks(2, [&](Communicator& world) {
      const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
      Ddp ddp(parameters(Layers(layers)), world, {2 * one_weight, ReduceOp::sum, overlap});
      std::vector<int> launched;  // after each layer's wgrad, from the last layer down
      Saved saved;
      const Tensor y = forward(layers, batch_rows("x", 0, 0, 4), saved);
      Tensor dy = y;
      for (size_t i = layers.size(); i-- > 0;) {
        Saved& own = saved.child(layers[i]->name());
        dy = layers[i]->backward_input(dy, own);
        layers[i]->backward_weight(own);
        launched.push_back(ddp.launched());
      }
      const std::vector<int> expected =
          overlap ? std::vector<int>{0, 1, 1, 2, 3} : std::vector<int>{0, 0, 0, 0, 0};
      CHECK(launched == expected);
      ddp.finish();
      CHECK(ddp.launched() == 0);
    });
}

TEST_CASE("under no_sync nothing is sent") {
  run_ranks(2, [&](Communicator& world) {
    const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
    Ddp ddp(parameters(Layers(layers)), world);
    {
      const Ddp::NoSync quiet = ddp.no_sync();
      run_microbatch(layers, 0, 0, 3);
    }
    CHECK(ddp.launched() == 0);
    CHECK(context().ledger.traffic("ddp.gradients").bytes_sent == 0);
    run_microbatch(layers, 0, 3, 6);
    CHECK(ddp.launched() == 1);
    ddp.finish();
  });
}

TEST_CASE("a parameter that no rank, or only one rank, used is reduced all the same") {
  run_ranks(3, [&](Communicator& world) {
    const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
    const std::vector<ParameterPtr> all = parameters(Layers(layers));
    Ddp ddp(all, world, {one_weight, ReduceOp::sum, true});
    const Layers used = world.rank() == 1 ? Layers(layers) : Layers(layers).subspan(0, 3);
    run_microbatch(used, 0, world.rank(), world.rank() + 1);
    ddp.finish();
    std::vector<double> mine, everyone;
    for (const ParameterPtr& each : all) append(mine, each->grad);
    everyone = mine;
    world.all_reduce(everyone, ReduceOp::max);
    CHECK(everyone == mine);
    CHECK(std::abs(all[4]->grad.item({0, 0})) > 0);  // rank 1's alone
  });
}

TEST_CASE("a mean of local means is the mean over equal shares") {
  std::vector<double> sums, means;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
    run_ranks(4, [&](Communicator& world) {
      const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
      const std::vector<ParameterPtr> all = parameters(Layers(layers));
      Ddp ddp(all, world, {one_weight, op, true});
      run_microbatch(layers, 0, 2 * world.rank(), 2 * world.rank() + 2);
      ddp.finish();
      if (world.rank() == 0) append(op == ReduceOp::sum ? sums : means, all[0]->grad);
    });
  for (double& each : sums) each /= 4;
  check_equal(means, sums, 4, "gradients");
}

TEST_CASE("mistakes are named") {
  CHECK_THROWS_WITH_AS(run_ranks(2,
                                 [&](Communicator& world) {
                                   const std::vector<LayerPtr> layers = make_linear_net(net);
                                   Ddp ddp(parameters(Layers(layers)), world);
                                   for (const ParameterPtr& each : parameters(Layers(layers)))
                                     for (int twice = 0; twice < 2; ++twice)
                                       each->mark_grad_ready(0);
                                 }),
                       doctest::Contains("final twice before finish()"), Error);
  CHECK_THROWS_WITH_AS(run_ranks(3,
                                 [&](Communicator& world) {
                                   const Tensor ids =
                                       Tensor::full({4}, world.rank() % 2, DType::i32);
                                   check_ranks_differ(ids, world);
                                 }),
                       doctest::Contains("ranks 0 and 2 saw identical tokens"), Error);
  run_ranks(3, [&](Communicator& world) {
    check_ranks_differ(Tensor::full({4}, world.rank(), DType::i32), world);
  });
}

TEST_CASE("the ranks' shares of a batch are the batch, each row once") {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int64_t batch : {17, 8, 3, 0}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const BatchShard share = batch_shard(batch, ranks, rank);
        CHECK(share.begin == next);
        CHECK(share.end - share.begin >= batch / ranks);
        CHECK(share.end - share.begin <= batch / ranks + 1);
        next = share.end;
      }
      CHECK(next == batch);
    }
}
