// The rule by which a collective's algorithm is chosen, against runs of all that there are.
#include "yotta/comm/collective_choice.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "yotta/comm/chooser.hpp"

using namespace yotta;

namespace {

GroupNetwork first_chips(const Cluster& cluster, int count) {
  std::vector<int> chips(static_cast<size_t>(count));
  std::iota(chips.begin(), chips.end(), 0);
  return group_network(cluster, chips);
}

// Of the three that send the fewest bytes.
AlgorithmTime fastest_of_three(const std::vector<AlgorithmTime>& times) {
  for (const AlgorithmTime& each : times)
    if (each.algorithm == Algorithm::ring || each.algorithm == Algorithm::hierarchical ||
        each.algorithm == Algorithm::multi_rail)
      return each;
  return {Algorithm::naive, 0};
}

}  // namespace

TEST_CASE("over nodes the chosen way is the fastest of three under the clock, in its seconds") {
  const Cluster cluster = cluster_named("h100x32");
  using Times = std::vector<AlgorithmTime> (*)(const Cluster&, int, int64_t, Where);
  const std::pair<Operation, Times> operations[] = {
      {Operation::all_reduce, all_reduce_times},
      {Operation::all_gather, all_gather_times},
      {Operation::reduce_scatter, reduce_scatter_times}};
  for (const auto& [operation, times] : operations)
    for (const int p : {16, 32})
      for (const int64_t bytes : {1 << 16, 1 << 24, 1 << 28}) {
        const AlgorithmTime fastest = fastest_of_three(times(cluster, p, bytes, Where::current()));
        const GroupNetwork network = first_chips(cluster, p);
        const CollectiveChoice chosen =
            choose_collective(operation, network, static_cast<double>(bytes));
        CAPTURE(p);
        CAPTURE(bytes);
        CHECK(std::string(name(chosen.algorithm)) == std::string(name(fastest.algorithm)));
        CHECK(collective_seconds(operation, network, static_cast<double>(bytes)) ==
              doctest::Approx(fastest.seconds).epsilon(1e-9).scale(0));
      }
}

TEST_CASE("levels above a node count too: here racks are the best groups") {
  Cluster cluster = ideal(16);
  cluster.levels = {{"node", 2, 0, 1}, {"rack", 4, 0, 2}, {"pod", 8, 0, 8}, {"cluster", 16, 0, 8}};
  const GroupNetwork network = first_chips(cluster, 16);
  const CollectiveChoice chosen = choose_collective(Operation::all_reduce, network, 1 << 16);
  CHECK(chosen.algorithm == Algorithm::hierarchical);
  CHECK(chosen.node == 4);
  CHECK(collective_seconds(Operation::all_reduce, network, 1 << 16) ==
        doctest::Approx(
            all_reduce_seconds(cluster, 16, 1 << 16, {Algorithm::hierarchical, nullptr, 4})));
}

TEST_CASE("a world on two nodes takes that way by itself: every card sends an equal part") {
  constexpr int64_t bytes = 1 << 28;
  const Timed run = run_on(cluster_named("h100x16"), 16, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor data = Tensor::empty({bytes}, DType::u8);
    world.all_reduce(data);
  });
  for (int rank = 0; rank < 16; ++rank) {
    int64_t by_card = 0;
    for (const TraceEvent& event : run.trace.ranks[static_cast<size_t>(rank)])
      if (event.kind == EventKind::send && event.peer / 8 != rank / 8) by_card += event.bytes;
    CHECK(by_card == 2 * (15 * bytes / 16) / 8);
  }
}

TEST_CASE("small arrays take few messages, also where p is no power of two") {
  const Cluster cluster = cluster_named("h100x8");
  for (const int p : {3, 5, 6, 8})
    for (const int64_t bytes : {240, 12000}) {
      const GroupNetwork network = first_chips(cluster, p);
      const auto seconds = [&](Operation operation) {
        return doctest::Approx(collective_seconds(operation, network, static_cast<double>(bytes)))
            .epsilon(1e-9)
            .scale(0);
      };
      const auto measured = [&](auto call) {
        return run_on(cluster, p,
                      [&](Communicator& world) {
                        const DeviceScope meta(Device::meta);
                        Tensor data = Tensor::empty({bytes}, DType::u8), other = data.clone();
                        call(world, Data(data), Data(other));
                      })
            .seconds();
      };
      CAPTURE(p);
      CAPTURE(bytes);
      CHECK(measured([](Communicator& w, Data x, Data) { w.all_reduce(x); }) ==
            seconds(Operation::all_reduce));
      CHECK(measured([&](Communicator& w, Data x, Data) {
              w.reduce_scatter(x.chunk(w.rank(), p), x);
            }) == seconds(Operation::reduce_scatter));
      CHECK(measured([](Communicator& w, Data x, Data y) { w.all_to_all(y, x); }) ==
            seconds(Operation::all_to_all));
    }
}

TEST_CASE("at a port are all seconds but latency, sums and what goes inside a node") {
  const GroupNetwork one{4, {1e-6, 1e-9, 0}, 1e-9};
  CHECK(port_seconds(Operation::all_reduce, one, 1e6) == doctest::Approx(1.5e-3).scale(0));
  CHECK(collective_seconds(Operation::all_reduce, {1, {1, 1, 0}}, 1e6) == 0);
  const GroupNetwork two{16, {5e-6, 1 / 50e9, 1}, 0, {{8, {1e-6, 1 / 450e9, 0}}}};
  const CollectiveChoice some = choose_collective(Operation::all_gather, two, 1 << 20);
  REQUIRE(some.algorithm == Algorithm::hierarchical);
  CHECK(port_seconds(Operation::all_gather, two, 1 << 20) ==
        doctest::Approx((1 << 20) / 8 / 2 / 50e9).scale(0));
  CHECK(port_seconds(Operation::all_gather, two, 1 << 28) ==
        doctest::Approx((1 << 28) / 16.0 * 15 / 8 / 50e9).scale(0));
}

TEST_CASE("scratch is what a ring or a level holds beside its data") {
  const auto held = [](Operation operation, int p, int64_t bytes) {
    int64_t most = 0;
    run_on(cluster_named("h100x16"), p, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      Tensor data = Tensor::empty({bytes}, DType::u8);
      const int64_t before = context().ledger.memory()->live();
      context().ledger.memory()->reset_peaks();
      if (operation == Operation::all_reduce) world.all_reduce(data);
      if (operation == Operation::reduce_scatter)
        world.reduce_scatter(Data(data).chunk(world.rank(), p), data);
      if (world.rank() == 0) most = context().ledger.memory()->peak() - before;
    });
    return static_cast<double>(most);
  };
  const Cluster cluster = cluster_named("h100x16");
  for (const int p : {8, 16})
    for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter})
      for (const int64_t bytes : {1 << 18, 1 << 26}) {
        CAPTURE(p);
        CAPTURE(bytes);
        CHECK(held(operation, p, bytes) ==
              scratch_bytes(operation, first_chips(cluster, p), static_cast<double>(bytes)));
      }
}
