// The graded cases of exercise 16. What crosses between groups, and when, is read from the ledger
// and from the virtual clock, so a solution that computes the right numbers over the wrong links
// does not pass.
#include <functional>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/hsdp_cost.hpp"

using namespace yotta;
using exercise::AnyHsdp;
using exercise::expect;
using exercise::Ranks;
using exercise::require;
using exercise::run;
using exercise::solution;

namespace {

using Numbers = std::vector<double>;

constexpr LinearNetConfig net = {4, 12};  // 144 numbers per layer: 2, 3 and 4 divide it, twice
constexpr int64_t one_layer = net.width * net.width, rows = 8;

std::vector<LayerPtr> make_net(uint64_t seed = 1) {
  return make_linear_net(net, {exercise::seed(seed), DType::f64});
}

// Each layer has a weight and a bias.
std::vector<LayerPtr> make_net_with_biases() {
  std::vector<LayerPtr> layers;
  for (int64_t i = 0; i < net.layers; ++i)
    layers.push_back(std::make_unique<Linear>("layers." + std::to_string(i),
                                              LinearOptions{net.width, net.width, true},
                                              ParameterOptions{1, DType::f64}));
  return layers;
}

Tensor draw(int64_t step, int64_t begin, int64_t end) {
  Tensor x = Tensor::empty({end - begin, net.width}, DType::f64);
  const Random random(exercise::seed(static_cast<uint64_t>(step)), "x");
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = random.normal(static_cast<uint64_t>(begin * net.width + i));
  return x;
}

// Forward and backward of rows [begin, end); the loss is half the sum of y^2.
void pass(Layers layers, int64_t begin, int64_t end) {
  Saved saved({0, 0, begin, 0, true});
  const Tensor y = forward(layers, draw(0, begin, end), saved);
  backward(layers, y, saved);
}

// The groups as they should be: later tasks do not depend on task 16.3.
Ranks right_ranks(const Communicator& world, int p) {
  return {world.split(world.rank() / p, world.rank()).named("fsdp"),
          world.split(world.rank() % p, world.rank()).named("dp")};
}

// All gradients of one rank that has all rows.
Numbers expected_gradients() {
  const std::vector<LayerPtr> whole = make_net();
  pass(whole, 0, rows);
  Numbers all;
  for (const ParameterPtr& each : parameters(Layers(whole)))
    for (const double g : each->grad.values()) all.push_back(g);
  return all;
}

// Throws unless each shard's gradient is the sum over all ranks.
void require_gradients(const std::deque<FsdpUnit>& units, const Numbers& expected, int ranks, int p,
                       int rank) {
  for (size_t u = 0; u < units.size(); ++u)
    for (const ParameterShard& shard : units[u].shards()) {
      const Numbers actual = shard.parameter->gradient().values();
      const auto begin = expected.begin() + static_cast<int64_t>(u) * one_layer + shard.first;
      int64_t right = 0;
      for (size_t i = 0; i < actual.size(); ++i)
        right += std::abs(actual[i] - begin[static_cast<int64_t>(i)]) <= 1e-9;
      const auto count = static_cast<int64_t>(actual.size());
      require(right == 0 || right == count,
              fmt::format("rank {}, unit {}: only {} of the shard's {} numbers are the sum over "
                          "all groups. Each replica steps the whole shard, so each needs the whole "
                          "sum: all_reduce, not reduce_scatter",
                          rank, u, right, count));
      Clues clues;
      clues.what = fmt::format("the gradient of unit {}'s shard on rank {} of {}, groups of {}", u,
                               rank, ranks, p);
      clues.ranks = ranks / p;
      const Verdict verdict = compare(actual, {begin, begin + count}, 1e-9, clues);
      require(verdict.equal, verdict.text);
    }
}

// One step of `microbatches` on this rank's rows.
void step(AnyHsdp& hsdp, const Communicator& world, int64_t microbatches) {
  const int64_t mine = rows / world.size(), first = world.rank() * mine;
  for (int64_t i = 0; i < microbatches; ++i) {
    if (microbatches > 1) hsdp.before_microbatch(i + 1 == microbatches);
    pass(hsdp.stack(),
         first + chunk_begin(mine, static_cast<int>(microbatches), static_cast<int>(i)),
         first + chunk_begin(mine, static_cast<int>(microbatches), static_cast<int>(i) + 1));
  }
  hsdp.finish();
}

// Two groups of two ranks; slow links are `slower` times as slow as would hide all_reduces exactly.
double seconds_of_step() {
  const double bytes = 8.0 * one_layer, flops = 2.0 * one_layer * rows;
  Cluster machine = ideal(4);
  machine.levels = {{"node", 2, 0, flops / 4 / (bytes / 2)},
                    {"cluster", 4, 0, 1.5 * flops / (bytes / 2)}};
  double start = 0;
  const Timed timed = run_on(machine, 4, [&](Communicator& world) {
    context().threads = 1;
    const std::vector<LayerPtr> model = make_net();
    const auto hsdp = solution.make(model, right_ranks(world, 2), Algorithm::ring);
    world.barrier();
    if (world.rank() == 0) start = context().clock->now(0).end;
    pass(hsdp->stack(), 0, rows);
    hsdp->finish();
  });
  return timed.seconds() - start;
}
HsdpTimes times_of_step() {
  const double flops = 2.0 * one_layer * rows;
  return {{flops, 2 * flops, flops / 4, flops / 4, one_layer / 2.0}, 1.5 * flops};
}

}  // namespace

TEST_CASE("16.1: inside the group: three trips for each microbatch") {
  for (const int64_t p : {2, 4, 8})
    for (const int64_t m : {1, 3}) {
      const int64_t inside = solution.elements_sent(p, 2, 960, m).first;
      expect(inside == 3 * m * 960 / p * (p - 1),
             fmt::format("p = {}, 960 parameters, {} microbatches: {} elements inside the group, "
                         "not {}. Each microbatch gathers twice and reduces once "
                         "(fsdp_elements_sent)",
                         p, m, inside, 3 * m * 960 / p * (p - 1)));
    }
}

TEST_CASE("16.1: between groups: an all_reduce of a shard, once a step") {
  for (const int64_t p : {2, 4})
    for (const int64_t R : {1, 2, 4})
      for (const int64_t m : {1, 3}) {
        const int64_t between = solution.elements_sent(p, R, 960, m).second;
        const int64_t right = 2 * 960 / p / R * (R - 1);
        const char* why =
            between == right * p ? "that is whole gradients; only shards cross"
            : between == right * m
                ? "only the last microbatch of a step sends between groups"
                : "an all_reduce of N/p elements over R ranks sends 2 (R-1)/R of them";
        expect(between == right, fmt::format("p = {}, R = {}, {} microbatches: {} elements, not "
                                             "{}: {}",
                                             p, R, m, between, right, why));
      }
}

TEST_CASE("16.2: the smallest group that fits") {
  struct Case {
    int ranks;
    int64_t parameters, room;
    int right;
    const char* why;
  };
  for (const Case& each : {Case{8, 1000, 16000, 1, "16 bytes per parameter fit on one rank"},
                           {8, 1000, 15999, 2, "16 bytes per parameter do not fit on one rank"},
                           {8, 1000, 2000, 8, "only all ranks together have the room"},
                           {12, 1000, 5333, 4, "on 3 ranks a third of a byte does not fit"},
                           {12, 1000, 5334, 3, "3 ranks hold 16000 bytes, and have room for 16002"},
                           {12, 1000, 3200, 6, "5 ranks have the room, but 5 does not divide 12"},
                           {8, 1000, 1999, 0, "not even all ranks have the room"}}) {
    const int found = solution.smallest_group(each.ranks, each.parameters, each.room);
    expect(found == each.right,
           fmt::format("{} ranks, {} parameters, {} bytes of room: {}, not {}: {}", each.ranks,
                       each.parameters, each.room, found, each.right, each.why));
  }
}

TEST_CASE("16.3: a group is neighbours, and replicas are one rank of each group") {
  run(6, [](Communicator& world) {
    const Ranks ranks = solution.ranks(world, 3);
    const int rank = world.rank(), first = rank / 3 * 3;
    require(ranks.group.is_member() && ranks.replicas.is_member(),
            fmt::format("rank {} is in no group, or has no replicas: split the world twice", rank));
    const std::vector<int> group = {first, first + 1, first + 2};
    const std::vector<int> replicas = {rank % 3, rank % 3 + 3};
    require(ranks.group.members() != replicas && ranks.replicas.members() != group,
            fmt::format("rank {} of 6: group and replicas are exchanged. The group is {} to {}: "
                        "neighbours have fast links, and whole weights travel in the group",
                        rank, first, first + 2));
    require(ranks.group.members() == group,
            fmt::format("the group of rank {} of 6, p = 3, is not ranks {} to {}", rank, first,
                        first + 2));
    require(ranks.replicas.members() == replicas,
            fmt::format("the replicas of rank {} of 6, p = 3, are not ranks {} and {}", rank,
                        rank % 3, rank % 3 + 3));
  });
  CHECK(true);
}

TEST_CASE("16.3: groups that do not divide the world are refused") {
  std::string message;
  for (const int p : {3, 0, -2, 8}) {
    run(4, [&](Communicator& world) {
      const std::string error = exercise::error_of([&] { solution.ranks(world, p); });
      if (world.rank() == 0) message = error;
    });
    expect(
        !message.empty(),
        fmt::format("groups of {} in a world of 4 were accepted: fail() if p does not divide", p));
  }
  run(3, [&](Communicator& world) {
    const std::string error = exercise::error_of([&] { solution.ranks(world, 1); });
    if (world.rank() == 0) message = error;
  });
  expect(message.empty(), "groups of 1 divide any world: " + message);
}

TEST_CASE("16.4: the naive way ends with the sum over all ranks") {
  const Numbers expected = expected_gradients();
  for (const int p : {1, 2, 4})
    run(4, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_net();
      const Ranks ranks = right_ranks(world, p);
      Fsdp fsdp(model, ranks.group);
      pass(fsdp.stack(), 2 * world.rank(), 2 * world.rank() + 2);
      solution.reduce_over_replicas(fsdp, ranks.replicas);
      require_gradients(fsdp.units(), expected, 4, p, world.rank());
    });
  CHECK(true);
}

TEST_CASE("16.5: one bucket for each unit, in backward's order") {
  run(2, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    Fsdp fsdp(model, world);
    const std::deque<Bucket> buckets = solution.shard_buckets(fsdp.units());
    require(std::ssize(buckets) == net.layers,
            fmt::format("{} buckets for {} units: each unit's shards are a bucket of their own, so "
                        "that it leaves when its unit is reduced",
                        buckets.size(), net.layers));
    for (size_t i = 0; i < buckets.size(); ++i) {
      const auto& shards = fsdp.units()[buckets.size() - 1 - i].shards();
      require(buckets[i].parameters.size() == shards.size() &&
                  buckets[i].parameters.front() == shards.front().parameter,
              fmt::format("bucket {} does not hold unit {}'s shards. Backward reduces the last "
                          "unit first, and buckets leave in their order",
                          i, buckets.size() - 1 - i));
    }
  });
  CHECK(true);
}

TEST_CASE("16.5: a unit of several shards is one bucket") {
  run(1, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    Fsdp fsdp(model, world, {.layers_per_unit = 2});
    const std::deque<Bucket> buckets = solution.shard_buckets(fsdp.units());
    require(buckets.size() == fsdp.units().size(),
            fmt::format("{} buckets for {} units of two layers: the shards of a unit are reduced "
                        "together, so they leave in one bucket",
                        buckets.size(), fsdp.units().size()));
    for (size_t i = 0; i < buckets.size(); ++i) {
      const FsdpUnit& unit = fsdp.units()[buckets.size() - 1 - i];
      require(buckets[i].parameters.size() == unit.shards().size(),
              fmt::format("bucket {} holds {} of the {} shards of its unit: what is in no bucket "
                          "never leaves for the other groups",
                          i, buckets[i].parameters.size(), unit.shards().size()));
    }
  });
  CHECK(true);
}

TEST_CASE("16.5: the shards' gradients are views of their bucket") {
  run(2, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    Fsdp fsdp(model, world, {.layers_per_unit = 2});
    for (Bucket& bucket : solution.shard_buckets(fsdp.units())) {
      require(bucket.flat.defined(),
              "a bucket's flat array is undefined: flatten_gradients(bucket)");
      double number = 0;
      for (double& g : bucket.flat.span<double>()) g = ++number;
      double next = 0;
      for (const ParameterPtr& shard : bucket.parameters)
        for (const double g : shard->grad.values())
          require(g == ++next, "the shards' gradients do not lie side by side in bucket.flat");
    }
  });
  CHECK(true);
}

TEST_CASE("16.5: a rank with nothing but padding has no bucket for that unit") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net({2, 1}, {1, DType::f64});
    Fsdp fsdp(model, world);
    const size_t buckets = solution.shard_buckets(fsdp.units()).size();
    require(buckets == (world.rank() == 0 ? 2 : 0),
            fmt::format("rank {} of 4 has {} buckets for two units of one number each: only rank 0 "
                        "holds numbers of them",
                        world.rank(), buckets));
  });
  CHECK(true);
}

TEST_CASE("16.6: copies that start from other weights train from group 0's") {
  run(4, [](Communicator& world) {
    const Ranks ranks = right_ranks(world, 2);
    const std::vector<LayerPtr> model = make_net(static_cast<uint64_t>(1 + ranks.replicas.rank()));
    const std::vector<LayerPtr> first = make_net(1);
    Fsdp expected(first, ranks.group);
    const auto hsdp = solution.make(model, ranks, Algorithm::ring);
    for (size_t u = 0; u < expected.units().size(); ++u)
      require(hsdp->units()[u].shards()[0].parameter->value.values() ==
                  expected.units()[u].shards()[0].parameter->value.values(),
              fmt::format("rank {} starts from weights that group 0 does not have: "
                          "broadcast_parameters over the replicas",
                          world.rank()));
  });
  CHECK(true);
}

TEST_CASE("16.6: units leave while backward goes on") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    const auto hsdp = solution.make(model, right_ranks(world, 2), Algorithm::ring);
    pass(hsdp->stack(), 2 * world.rank(), 2 * world.rank() + 2);
    const int launched = hsdp->launched();
    hsdp->finish();
    require(
        launched == net.layers - 1,
        fmt::format("{} of {} units had left for the other group when backward ended, not {} "
                    "(the last sum is still under way in the group): each shard's on_grad_ready "
                    "tells its bucket",
                    launched, net.layers, net.layers - 1));
  });
  CHECK(true);
}

TEST_CASE("16.6: every shard of a unit tells its bucket") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net_with_biases();
    const auto hsdp = solution.make(model, right_ranks(world, 1), Algorithm::ring);
    pass(hsdp->stack(), 2 * world.rank(), 2 * world.rank() + 2);
    const int launched = hsdp->launched();
    hsdp->finish();
    require(launched == net.layers - 1,
            fmt::format("each unit has two shards, a weight and a bias, and {} of {} units had "
                        "left when backward ended, not {}: every shard of a bucket tells it",
                        launched, net.layers, net.layers - 1));
  });
  CHECK(true);
}

TEST_CASE("16.7: every replica ends with the sum over all ranks") {
  const Numbers expected = expected_gradients();
  for (const int p : {2, 1, 4})
    run(4, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_net();
      const auto hsdp = solution.make(model, right_ranks(world, p), Algorithm::ring);
      step(*hsdp, world, 1);
      require_gradients(hsdp->units(), expected, 4, p, world.rank());
    });
  CHECK(true);
}

TEST_CASE("16.7: all shards of a unit are summed") {
  const auto gradients = [](Layers layers) {
    std::vector<Numbers> all;
    for (const ParameterPtr& each : parameters(layers)) all.push_back(each->gradient().values());
    return all;
  };
  const std::vector<LayerPtr> whole = make_net_with_biases();
  pass(whole, 0, rows);
  const std::vector<Numbers> expected = gradients(whole);
  run(4, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_net_with_biases();
    const auto hsdp = solution.make(model, right_ranks(world, 1), Algorithm::ring);
    step(*hsdp, world, 1);
    size_t next = 0;
    for (const FsdpUnit& unit : hsdp->units())
      for (const ParameterShard& shard : unit.shards()) {
        const Verdict verdict =
            compare(shard.parameter->gradient().values(), expected[next++], 1e-9, {});
        require(verdict.equal,
                fmt::format("the gradient of {} on rank {} is not the sum over the replicas. Its "
                            "unit has two shards, a weight and a bias: bucket.flat holds both, and "
                            "leaves in one all_reduce. {}",
                            shard.parameter->name, world.rank(), verdict.text));
      }
  });
  CHECK(true);
}

TEST_CASE("16.7: only shards cross between groups") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    const auto hsdp = solution.make(model, right_ranks(world, 2), Algorithm::ring);
    const Ledger& ledger = context().ledger;
    const auto sent = [&] {  // but for what FSDP sends in its group
      return ledger.total_traffic().bytes_sent - ledger.traffic("fsdp.all_gather").bytes_sent -
             ledger.traffic("fsdp.reduce").bytes_sent;
    };
    const int64_t before = sent();
    step(*hsdp, world, 1);
    const int64_t elements = (sent() - before) / 8, shard = net.layers * one_layer / 2;
    require(elements != 2 * shard,
            "whole gradients crossed between groups: 2 times as many "
            "elements as the shards have; all_reduce bucket.flat");
    require(elements == shard, fmt::format("rank {} sent {} elements between groups, not {}",
                                           world.rank(), elements, shard));
  });
  CHECK(true);
}

TEST_CASE("16.7: the all_reduces go the way that the options ask for") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    const auto hsdp = solution.make(model, right_ranks(world, 1), Algorithm::naive);
    step(*hsdp, world, 1);
    const int64_t sent = context().ledger.traffic("hsdp.all_reduce").messages_sent;
    const int64_t right = (world.rank() == 0 ? 3 : 1) * net.layers;
    require(sent == right,
            fmt::format("rank {} sent {} messages under the label hsdp.all_reduce, and not the {} "
                        "of the naive algorithm that the options name: take "
                        "options_.replicas.labelled(\"hsdp.all_reduce\")",
                        world.rank(), sent, right));
  });
  CHECK(true);
}

TEST_CASE("16.7: the all_reduces hide behind backward") {
  const double seconds = seconds_of_step(), right = hsdp_seconds(net.layers, times_of_step());
  expect(std::abs(seconds - right) <= 1e-9 * right,
         fmt::format("a step takes {:.0f} s on the virtual clock, and {:.0f} s if each all_reduce "
                     "runs while backward goes on: start it (all_reduce_async) and return its Work",
                     seconds, right));
}

TEST_CASE("16.8: several microbatches end with the sum over all ranks") {
  const Numbers expected = expected_gradients();
  for (const int p : {2, 1, 4})
    run(4, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_net();
      const auto hsdp = solution.make(model, right_ranks(world, p), Algorithm::ring);
      step(*hsdp, world, 2);
      require_gradients(hsdp->units(), expected, 4, p, world.rank());
    });
  CHECK(true);
}

TEST_CASE("16.8: nothing leaves before the last microbatch") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    const auto hsdp = solution.make(model, right_ranks(world, 2), Algorithm::ring);
    const auto one = [&] { pass(hsdp->stack(), 2 * world.rank(), 2 * world.rank() + 1); };
    hsdp->before_microbatch(false);
    one();
    const int early = hsdp->launched();
    require(early == 0, fmt::format("{} units left for the other group in the first of two "
                                    "microbatches: set_syncing(last)",
                                    early));
    hsdp->before_microbatch(true);
    one();
    const int launched = hsdp->launched();
    hsdp->finish();
    require(launched == net.layers - 1,
            fmt::format("{} units had left when the last backward pass ended, not {}", launched,
                        net.layers - 1));
  });
  CHECK(true);
}

namespace {
// Has this unit the sum over all ranks?
bool has_sum(const FsdpUnit& unit, size_t number, const Numbers& expected) {
  for (const ParameterShard& shard : unit.shards()) {
    const Numbers actual = shard.parameter->gradient().values();
    for (size_t i = 0; i < actual.size(); ++i) {
      const auto first = static_cast<int64_t>(number) * one_layer + shard.first;
      if (!(std::abs(actual[i] - expected[static_cast<size_t>(first) + i]) <= 1e-9)) return false;
    }
  }
  return true;
}
}  // namespace

// What is wrong in all units is not finish()'s.
TEST_CASE("16.9: finish() waits for the last unit inside the group, and then between groups") {
  const Numbers expected = expected_gradients();
  run(4, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_net();
    const auto hsdp = solution.make(model, right_ranks(world, 2), Algorithm::ring);
    for (int i = 0; i < 2; ++i) {
      for (const ParameterPtr& each : parameters(hsdp->stack())) each->gradient().fill(0);
      step(*hsdp, world, 1);
      const int under_way = hsdp->launched();
      require(under_way == 0,
              fmt::format("after finish() {} units are still under way", under_way));
      const auto& units = hsdp->units();
      require(
          has_sum(units[0], 0, expected) || !has_sum(units[1], 1, expected),
          fmt::format("after finish() rank {} has the sum over all groups for unit 1 and not for "
                      "unit 0, whose sum inside the group comes last: that one first, then the "
                      "buckets",
                      world.rank()));
    }
  });
  CHECK(true);
}
