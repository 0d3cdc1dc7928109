#include "yotta/comm/engine/mirrored.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

namespace {

Tensor meta(int64_t n) {
  const DeviceScope scope(Device::meta);
  return Tensor::empty({n});
}
void compute(double seconds) { charge({"work", DType::f32, seconds, 0, 0}); }

// Chips 0 to 23: tp 2, pp 3, dp 4, tp innermost. Nodes of 2, racks of 6, and all. 1 FLOP/s.
Cluster machine() {
  Cluster c = ideal();
  c.name = "racks";
  c.levels = {
      {"node", 2, 0.0625, 1 / 512.0}, {"rack", 6, 0.125, 1 / 256.0}, {"all", 24, 0.25, 1 / 64.0}};
  c.gamma = 1 / 1024.0;
  return c;
}

// A step of a pipeline of tensor parallel stages, each a data parallel group, with everything in
// flight at once. `at` is this stage, of 3.
void step(Communicator& stages, int at, Communicator& tp, Communicator& dp) {
  Tensor x = meta(64), weights = meta(240), shard = meta(60), all = meta(240);
  compute(1 + at);
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    if (at > 0) stages.recv(x, at - 1);
    compute(0.5 + 0.25 * at);
    tp.all_reduce(x, ReduceOp::sum, {Algorithm::recursive_doubling});
    if (at < 2) stages.send(x, at + 1);
  }
  Work gradients = dp.all_reduce_async(weights, ReduceOp::sum, {Algorithm::ring});
  Work sharded = tp.all_reduce_async(x);
  compute(0.5);
  sharded.wait();
  gradients.wait();
  dp.reduce_scatter(shard, weights, ReduceOp::mean);
  dp.all_gather(all, shard, {Algorithm::bruck});
  const int p = dp.size(), rank = dp.rank();
  Work out = dp.send_async(shard, (rank + 1) % p);
  dp.recv_async(shard, (rank + p - 1) % p).wait();
  out.wait();
  dp.barrier();
}

// What is on the timeline of a rank from `start` on, apart from the numbers of its peers and lanes.
// (All times here are multiples of 1/1024, so nothing is rounded.)
std::vector<std::string> timeline(const Trace& trace, int rank, double start) {
  std::vector<std::string> lines;
  for (const TraceEvent& e : trace.ranks[static_cast<size_t>(rank)])
    if (e.begin >= start)
      lines.push_back(fmt::format("{} to {}: {} {}, {} bytes, {}", e.begin - start, e.end - start,
                                  name(e.kind), e.name, e.bytes, e.lane < 0));
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("3 threads stand for 24: the same timeline, the same ledger") {
  std::vector<double> starts(24);
  const Timed full = run_on(machine(), 24, [&](Communicator& world) {
    const int r = world.rank();
    Communicator stages = world.split(r % 2 + 2 * (r / 6), r);
    Communicator tp = world.split(r / 2, r), dp = world.split(r % 6, r);
    world.barrier();
    starts[static_cast<size_t>(r)] = context().clock->now(compute_lane).end;
    step(stages, r % 6 / 2, tp, dp);
  });
  const double start = starts[0];
  CHECK(starts == std::vector<double>(24, start));
  const Timed mirrored = run_on(
      machine(), 3,
      [&](Communicator& world) {
        const int chip = 2 * world.rank();
        Communicator tp = world.mirrored({chip, chip + 1});
        Communicator dp = world.mirrored({chip, chip + 6, chip + 12, chip + 18});
        CHECK((dp.is_mirrored() && dp.size() == 4 && dp.rank() == 0 && !world.is_mirrored()));
        step(world, world.rank(), tp, dp);
      },
      {.chips = {0, 2, 4}});
  for (int stage = 0; stage < 3; ++stage) {
    const std::vector<std::string> expected = timeline(full.trace, 2 * stage, start);
    CHECK(expected.size() > 50);
    CHECK(timeline(mirrored.trace, stage, 0) == expected);
    CHECK(mirrored.seconds(stage) == full.seconds(2 * stage) - start);
    for (const int image : {1, 6, 7, 12, 18, 19})
      CHECK(timeline(full.trace, 2 * stage + image, start) == expected);
    const Ledger &one = mirrored.reports[static_cast<size_t>(stage)].ledger(),
                 &other = full.reports[static_cast<size_t>(2 * stage)].ledger();
    for (const char* label : {"all_reduce", "reduce_scatter", "all_gather", "send"}) {
      CHECK(one.traffic(label).bytes_sent == other.traffic(label).bytes_sent);
      CHECK(one.traffic(label).messages_received == other.traffic(label).messages_received);
    }
  }
}

// Every rank of two nodes of 4, and one rank that stands for them.
TEST_CASE("over nodes each ring and level takes its time, also where parts are not equally long") {
  Cluster c = ideal(8, 1);
  c.levels = {{"node", 4, 0.0625, 1 / 4096.0}, {"all", 8, 0.25, 1 / 512.0}};
  c.gamma = 1 / 65536.0;
  const auto body = [](Communicator& group, CommOptions options) {
    Tensor x = meta(8 * 1030), shard = meta(1030);  // 4 does not divide 1030
    group.all_reduce(x, ReduceOp::sum, options);
    group.reduce_scatter(shard, x, ReduceOp::sum, options);
    group.all_gather(x, shard, options);
  };
  for (const Algorithm algorithm :
       {Algorithm::automatic, Algorithm::multi_rail, Algorithm::hierarchical}) {
    const CommOptions options{algorithm, nullptr, 4};
    const Timed full = run_on(c, 8, [&](Communicator& world) { body(world, options); });
    const Timed one = run_on(c, 1, [&](Communicator& world) {
      Communicator all = world.mirrored({0, 1, 2, 3, 4, 5, 6, 7});
      body(all, options);
    });
    CAPTURE(std::string(name(algorithm)));
    CHECK(one.seconds() == doctest::Approx(full.seconds()).epsilon(2e-3));
    for (const char* label : {"all_reduce", "reduce_scatter", "all_gather"})
      CHECK(one.reports[0].ledger().traffic(label).messages_sent ==
            full.reports[0].ledger().traffic(label).messages_sent);
  }
}

TEST_CASE("16,384 chips in one thread") {
  const int p = 16384;
  std::vector<int> chips(p);
  for (int i = 0; i < p; ++i) chips[static_cast<size_t>(i)] = i;
  const Cluster c = ideal(p, 1, 1e9);
  const Timed run = run_on(c, 1,
                           [&](Communicator& world) {
                             Communicator all = world.mirrored(chips);
                             Tensor x = meta(p * 4);
                             all.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
                           },
                           {.trace = false});
  CHECK(run.seconds() == doctest::Approx(2.0 * (p - 1) * 16 / 1e9).epsilon(1e-12).scale(0));
}

TEST_CASE("what cannot be mirrored is refused, with its reason") {
  const auto refused = [](auto body) {
    return message_of([&] {
      run_on(machine(), 1, [&](Communicator& world) {
        Communicator comm = world.mirrored({0, 6, 12, 18});
        body(comm);
      });
    });
  };
  const auto links = [](std::vector<int> chips) {
    return message_of(
        [&] { run_on(machine(), 1, [&](Communicator& world) { world.mirrored(chips); }); });
  };
  CHECK(contains(refused([](Communicator& c) {
                   Tensor x = meta(8);
                   c.broadcast(x, 0);
                 }),
                 "broadcast of 8 f32, root 0, tree of 4 ranks cannot be mirrored: its ranks play "
                 "different parts (one only sends)"));
  CHECK(contains(refused([](Communicator& c) {
                   Tensor x = meta(10);
                   c.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
                 }),
                 "one sends 2 and receives 3"));
  CHECK(contains(refused([](Communicator& c) {
                   std::vector<float> x(8);
                   c.all_reduce(x);
                 }),
                 "takes tensors on Device::meta"));
  CHECK(contains(refused([](Communicator& c) { c.split(0, 0); }), "cannot be split"));
  CHECK(contains(links({0, 2, 6}),
                 "chips 0 and 2 talk over the rack (0.125 s), chips 0 and 6 talk "
                 "over the all (0.25 s)"));
  CHECK(contains(links({0, 6, 12, 14}), "chips 12 and 14 talk over the rack"));
  CHECK(contains(links({0, 6, 6}), "chip 6 is listed twice"));
  CHECK(contains(links({6, 0}), "rank 0 is on chip 0, but its list of chips begins with chip 6"));
  CHECK(contains(links({}), "at least one chip"));
  CHECK(contains(links({0, 30}), "racks has chips 0 to 23, not 30"));
  CHECK(links({0}) == "nothing was thrown");
  CHECK(contains(message_of([] {
                   run_on(
                       machine(), 2,
                       [](Communicator& world) {
                         Communicator dp = world.mirrored({4 * world.rank(), 4 * world.rank() + 6});
                         Tensor x = meta(8);
                         if (world.rank() == 0) world.send(x, 1);
                         if (world.rank() == 1) world.recv(x, 0);
                       },
                       {.chips = {0, 4}});
                 }),
                 "nothing was thrown"));
  CHECK(contains(message_of([] {
                   Cluster c = machine();
                   c.levels[1].chips = 8;  // 0 and 4 share a rack, their images 12 and 16 do not
                   run_on(c, 2,
                          [](Communicator& world) {
                            Tensor x = meta(8);
                            if (world.rank() == 1) return world.recv(x, 0);
                            Communicator dp = world.mirrored({0, 12});
                            world.send(x, 1);
                          },
                          {.chips = {0, 4}});
                 }),
                 "rank 0 on chip 0 sends to chip 4, but its image on chip 12 sends over a link"));
}
