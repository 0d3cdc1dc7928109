// One network: whoever says how long a collective takes says the same. 50 questions are asked of a
// run under the clock, of a run in which one rank stands for all, of the closed forms and of the
// planner.
#include <doctest/doctest.h>

#include <numeric>

#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/expert_cost.hpp"
#include "yotta/parallel/fsdp_cost.hpp"
#include "yotta/parallel/gradient_groups.hpp"
#include "yotta/parallel/hsdp_cost.hpp"
#include "yotta/plan/plan_groups.hpp"

using namespace yotta;

namespace {

// A group: the ranks along an axis of a mesh on a cluster, or along two.
struct Asked {
  const char* cluster;
  MeshShape shape;
  std::vector<Axis> axes;
  Algorithm large;  // of an all_reduce of 128 MiB
  int node = 1;
};
constexpr int64_t few = 3 << 9, some = 3 << 18, many = 3 << 25;  // bytes; 24 ranks divide all
const Asked groups[] = {
    {"h100x8", {.tp = 8}, {Axis::tp}, Algorithm::ring},
    {"h100x32", {.dp_shard = 32}, {Axis::dp_shard}, Algorithm::multi_rail, 8},
    {"a100x16", {.dp_replicate = 16}, {Axis::dp_replicate}, Algorithm::multi_rail, 8},
    {"b200x64", {.tp = 4, .dp_shard = 16}, {Axis::dp_shard}, Algorithm::hierarchical, 2},
    {"h100x32", {.tp = 8, .dp_replicate = 4}, {Axis::dp_replicate}, Algorithm::ring},
    {"h100x24", {.tp = 3, .dp_shard = 8}, {Axis::dp_shard}, Algorithm::ring},  // 3 do not fill 8
    {"h100x48", {.cp = 24, .pp = 2}, {Axis::cp}, Algorithm::multi_rail, 8},
    {"llama3-24k", {.tp = 2, .dp_shard = 64}, {Axis::dp_shard}, Algorithm::hierarchical, 4},
    // FSDP's shards stand along cp and dp_shard, copies along cp and dp_replicate.
    {"h100x64",
     {.tp = 2, .cp = 4, .dp_shard = 8},
     {Axis::cp, Axis::dp_shard},
     Algorithm::multi_rail,
     4},
    {"h100x64",
     {.cp = 2, .pp = 4, .dp_replicate = 8},
     {Axis::cp, Axis::dp_replicate},
     Algorithm::multi_rail,
     2},
};

struct Question {
  Asked group;
  Operation operation;
  int64_t bytes;
};
std::vector<Question> questions() {
  std::vector<Question> all;
  for (const Asked& group : groups) {
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather,
                                      Operation::reduce_scatter, Operation::all_to_all})
      all.push_back({group, operation, many});
    const bool is_first = all.size() <= 16;  // of the others what is small goes up to 32 ranks
    all.push_back({group, is_first ? Operation::all_reduce : Operation::all_gather,
                   all.size() % 2 == 0 ? few : some});
  }
  return all;
}

Cluster cluster_of(const Question& question) {
  Cluster cluster = cluster_named(question.group.cluster);
  cluster.gamma = 1e-12;
  return cluster;
}
std::vector<int> chips_of(const Question& question) {
  return group_of(question.group.shape, 0, question.group.axes);
}

void run_collective(const Communicator& group, const Question& question) {
  const DeviceScope meta(Device::meta);
  Tensor data = Tensor::empty({question.bytes}, DType::u8);
  const Data all = data, mine = all.chunk(group.rank(), group.size());
  if (question.operation == Operation::all_reduce) group.all_reduce(all);
  if (question.operation == Operation::all_gather) group.all_gather(all, mine);
  if (question.operation == Operation::reduce_scatter) group.reduce_scatter(mine, all);
  if (question.operation == Operation::all_to_all) {
    Tensor from = Tensor::empty({question.bytes}, DType::u8);
    group.all_to_all(all, from);
  }
}

// ---- the models ----

double by_clock(const Question& question) {
  const std::vector<int> chips = chips_of(question);
  const Timed run = run_on(cluster_of(question), static_cast<int>(chips.size()),
                           [&](Communicator& world) { run_collective(world, question); },
                           {.trace = false, .chips = chips, .share = false});
  return run.seconds();
}
double by_one_for_all(const Question& question) {
  const Cluster cluster = as_seen_by(question.group.shape, cluster_of(question));
  const Timed run = run_on(
      cluster, 1,
      [&](Communicator& world) { run_collective(world.mirrored(chips_of(question)), question); },
      {.trace = false, .share = false});
  return run.seconds();
}
double by_formula(const Question& question) {
  return collective_seconds(question.operation,
                            group_network(cluster_of(question), chips_of(question)),
                            static_cast<double>(question.bytes));
}
double by_planner(const Question& question) {
  const Cluster cluster = cluster_of(question);
  const PlanGroups of = plan_groups(cluster, question.group.shape);
  const Axis last = question.group.axes.back();
  const PlanGroup& group = last == Axis::tp         ? of.tp
                           : last == Axis::cp       ? of.cp
                           : last == Axis::dp_shard ? of.shards
                                                    : of.data;
  return collective_seconds(question.operation, group, static_cast<double>(question.bytes));
}

}  // namespace

TEST_CASE("50 questions, and one answer from the clock, the formulas and the planner") {
  const std::vector<Question> all = questions();
  CHECK(all.size() == 50);
  for (const Question& question : all) {
    CAPTURE(std::string(question.group.cluster));
    CAPTURE(describe(question.group.shape));
    CAPTURE(static_cast<int>(question.operation));
    CAPTURE(question.bytes);
    const double seconds = by_clock(question);
    CHECK(seconds > 0);
    CHECK(by_formula(question) == doctest::Approx(seconds).epsilon(1e-9).scale(0));
    CHECK(by_one_for_all(question) == doctest::Approx(seconds).epsilon(1e-9).scale(0));
    CHECK(by_planner(question) == doctest::Approx(seconds).epsilon(1e-9).scale(0));
  }
}

TEST_CASE("over nodes large arrays use a ring for each card, or go by levels; the rest one ring") {
  for (const Asked& group : groups) {
    const Question question{group, Operation::all_reduce, many};
    const CollectiveChoice chosen = choose_collective(
        Operation::all_reduce, group_network(cluster_of(question), chips_of(question)), many);
    CAPTURE(std::string(group.cluster));
    CAPTURE(describe(group.shape));
    CHECK(std::string(name(chosen.algorithm)) == std::string(name(group.large)));
    CHECK(chosen.node == group.node);
  }
}

TEST_CASE("HSDP's closed form asks the same rule, inside its groups and between them") {
  const Cluster cluster = cluster_named("a100x64");
  const HsdpWork work{.parameters = 64e6, .units = 2};
  const HsdpTimes sixteen = hsdp_group(cluster, 64, 16, work).times;
  std::vector<int> inside(16), between;
  std::iota(inside.begin(), inside.end(), 0);
  for (int i = 0; i < 4; ++i) between.push_back(16 * i);
  const GroupNetwork in = group_network(cluster, inside), out = group_network(cluster, between);
  CHECK(sixteen.inside.gather == collective_seconds(Operation::all_gather, in, 2 * 32e6));
  CHECK(sixteen.inside.reduce == collective_seconds(Operation::reduce_scatter, in, 4 * 32e6));
  CHECK(sixteen.all_reduce == collective_seconds(Operation::all_reduce, out, 4 * 32e6 / 16));
}

TEST_CASE("FSDP's closed form, with the rule's seconds, is its messages on the clock") {
  for (const Asked& group : groups) {
    if (group.axes.back() != Axis::dp_shard) continue;
    CAPTURE(std::string(group.cluster));
    const Question gather{group, Operation::all_gather, some},
        reduce{group, Operation::reduce_scatter, 2 * some};
    // Two units without prefetch: gathered in forward and in backward, and reduced.
    const std::vector<int> chips = chips_of(gather);
    const Timed run = run_on(cluster_of(gather), static_cast<int>(chips.size()),
                             [&](Communicator& world) {
                               for (int i = 0; i < 2; ++i) run_collective(world, gather);
                               for (int i = 0; i < 2; ++i)
                                 run_collective(world, gather), run_collective(world, reduce);
                             },
                             {.trace = false, .chips = chips, .share = false});
    const FsdpTimes times{.gather = by_planner(gather), .reduce = by_planner(reduce)};
    CHECK(fsdp_seconds(2, times, false, false) ==
          doctest::Approx(run.seconds()).epsilon(1e-9).scale(0));
  }
}

TEST_CASE("experts: the width that hides their exchanges is by the rate of the rule's all_to_all") {
  // 8 ranks of one node, and 4 that have one card each.
  for (const Asked& group : {groups[0], groups[4]}) {
    CAPTURE(std::string(group.cluster));
    Question question{group, Operation::all_to_all, many};
    Cluster cluster = cluster_of(question);
    for (Level& level : cluster.levels) level.alpha = 0;
    const GroupNetwork network = group_network(cluster, chips_of(question));
    const double exchange = collective_seconds(Operation::all_to_all, network, many);
    const double p = network.p,
                 rows = static_cast<double>(many) / (2.0 * 1024);  // of 1024 numbers in bf16
    const double width = expert_hidden_width(cluster.chip.bf16, 1 / network.link.beta, p, 2);
    CHECK(6 * 1024 * width * rows / cluster.chip.bf16 ==
          doctest::Approx(2 * exchange).epsilon(1e-9).scale(0));
    CHECK(static_cast<double>(uniform_expert_bytes_sent(many / 2048, 1, 1024, network.p, 2)) *
              network.link.beta ==
          doctest::Approx(exchange).epsilon(1e-9).scale(0));
  }
}

TEST_CASE("a group along an axis of a torus: one ring, for the clock and for the formula") {
  const Cluster torus = cluster_named("v5px64");
  const std::vector<int> chips = {0, 1, 2, 3};
  for (const Operation operation :
       {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter}) {
    CAPTURE(static_cast<int>(operation));
    const Question question{groups[0], operation, many};
    const Timed run =
        run_on(torus, 4, [&](Communicator& world) { run_collective(world, question); },
               {.trace = false, .chips = chips, .share = false});
    const GroupNetwork network = group_network(torus, chips);
    CHECK(choose_collective(operation, network, many).algorithm == Algorithm::ring);
    CHECK(collective_seconds(operation, network, many) ==
          doctest::Approx(run.seconds()).epsilon(1e-9).scale(0));
  }
}
