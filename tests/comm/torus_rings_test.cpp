#include "yotta/comm/torus_rings.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"
#include "support/message_of.hpp"
#include "support/near.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/contention.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Rings both ways, one way, axes of unequal lengths, of one chip and of two.
const std::vector<TorusShape> shapes = {{{3}, 2},    {{4}, 2},       {{2}, 1},    {{5}, 1},
                                        {{3, 3}, 2}, {{3, 4}, 2},    {{1, 3}, 2}, {{1}, 2},
                                        {{2, 2}, 1}, {{2, 3, 2}, 1}, {{4, 2}, 1}};

std::string text(const TorusShape& shape) {
  std::string text = fmt::format("{} directions, axes", shape.directions);
  for (const int length : shape.axes) text += fmt::format(" {}", length);
  return text;
}

// Runs body(rings, case, rank) on all ranks of a torus, for several n; checks the ledger.
template <class Body, class Formula>
void run_shape(const TorusShape& shape, const char* label, Body body, Formula formula,
               ReduceOp op = ReduceOp::sum, DType dtype = DType::f32) {
  for (const int64_t n : {0, 1, 2, 17, 1000}) {
    const Case c{shape.ranks(), n, dtype, op};
    INFO(text(shape) << ": " << c.text());
    std::vector<RankReport> reports;
    REQUIRE_NOTHROW(reports = run_ranks(c.p, [&](Communicator& world) {
                      TorusRings rings(world, shape);
                      body(rings, c, world.rank());
                    }));
    for (int rank = 0; rank < c.p; ++rank) {
      const Sent sent = formula(shape, rank, n, c.width());
      const Traffic traffic = reports[static_cast<size_t>(rank)].ledger().traffic(label);
      CAPTURE(rank);
      CHECK(traffic.messages_sent == sent.messages);
      CHECK(traffic.bytes_sent == sent.bytes);
    }
  }
}

void try_all_reduce(TorusRings& rings, const Case& c, int rank) {
  Tensor data = c.input(rank);
  rings.all_reduce(data, c.op);
  std::vector<double> expected = c.reduced(0, c.n);
  if (c.op == ReduceOp::mean)
    for (double& value : expected) value = static_cast<float>(value) / static_cast<float>(c.p);
  expect(data, expected, rank);
}
void try_reduce_scatter(TorusRings& rings, const Case& c, int rank) {
  const Tensor in = c.input(rank);
  Tensor out = empty(c.chunk(rank), c.dtype);
  rings.reduce_scatter(out, in, c.op);
  expect(out, c.reduced(c.begin(rank), c.begin(rank + 1)), rank);
  expect(in, c.input(rank).values(), rank);
}
void try_all_gather(TorusRings& rings, const Case& c, int rank) {
  const Tensor in = c.values(0, c.begin(rank), c.begin(rank + 1));
  Tensor out = empty(c.n, c.dtype);
  rings.all_gather(out, in);
  expect(out, c.input(0).values(), rank);
}
const auto gathered = [](const TorusShape& shape, int, int64_t n, int64_t width) {
  return all_gather_torus_sent(shape, n, width);
};

constexpr AlphaBeta net{3e-6, 1 / 7e9, 1 / 11e9};
Cluster machine(const std::vector<int>& axes) {
  Cluster made = torus(chip_named("v5p"), axes);
  made.levels[0].alpha = net.alpha;
  made.levels[0].beta = net.beta;
  made.gamma = net.gamma;
  return made;
}
double now() { return context().clock->now(compute_lane).end; }

// Seconds of the three collectives of n f32, on meta; one live rank stands for all, or all are
// alive.
struct Times {
  double all_reduce = 0, reduce_scatter = 0, all_gather = 0;
};
Times times(const TorusShape& shape, int64_t n, bool mirrored, int chip = 0) {
  Times found;
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    TorusRings rings =
        mirrored ? TorusRings::mirrored(world, shape, chip) : TorusRings(world, shape);
    context().clock->wait(compute_lane, {0, 1e-3});  // all begin when the last has made its rings
    Tensor all = Tensor::empty({n}), chunk = Tensor::empty({n / shape.ranks()});
    const double start = now();
    rings.all_reduce(all);
    const double reduced = now();
    rings.reduce_scatter(chunk, all);
    const double scattered = now();
    rings.all_gather(all, chunk);
    if (world.rank() == 0) found = {reduced - start, scattered - reduced, now() - scattered};
  };
  run_on(machine(shape.axes), mirrored ? 1 : shape.ranks(), body,
         {.trace = false, .chips = mirrored ? std::vector{chip} : std::vector<int>{}});
  return found;
}
}  // namespace

TEST_CASE("values on every torus, messages and bytes as the formulas say") {
  for (const TorusShape& shape : shapes) {
    run_shape(shape, "all_reduce", try_all_reduce, all_reduce_torus_sent);
    run_shape(shape, "reduce_scatter", try_reduce_scatter, gathered);
    run_shape(shape, "all_gather", try_all_gather, gathered);
  }
}

TEST_CASE("27 chips on three axes; every operation, and integers") {
  const TorusShape cube{{3, 3, 3}, 2}, square{{3, 3}, 2};
  run_shape(cube, "all_reduce", try_all_reduce, all_reduce_torus_sent);
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::prod})
    run_shape(square, "all_reduce", try_all_reduce, all_reduce_torus_sent, op, DType::f64);
  run_shape({{4}, 2}, "all_reduce", try_all_reduce, all_reduce_torus_sent, ReduceOp::mean);
  run_shape({{2, 2}, 1}, "reduce_scatter", try_reduce_scatter, gathered, ReduceOp::max, DType::i32);
  run_shape({{3, 4}, 2}, "all_gather", try_all_gather, gathered, ReduceOp::sum, DType::bf16);
}

TEST_CASE("buffers that are watched while in flight give the same values") {
  RunOptions options;
  options.check_buffers = true;
  const auto body = [](Communicator& world) {
    TorusRings rings(world, {{3, 3}, 2});
    const Case c{9, 100};
    try_all_reduce(rings, c, world.rank());
    try_reduce_scatter(rings, c, world.rank());
    try_all_gather(rings, c, world.rank());
  };
  CHECK_NOTHROW(run_ranks(9, body, options));
}

TEST_CASE("times are the ring's closed forms, with a link's rate times axes and directions") {
  for (const auto& [side, axes, directions] : {std::array{3, 1, 1},
                                               {3, 1, 2},
                                               {5, 1, 2},
                                               {2, 2, 1},
                                               {3, 2, 1},
                                               {3, 2, 2},
                                               {2, 3, 1},
                                               {3, 3, 1},
                                               {3, 3, 2}}) {
    const TorusShape shape{std::vector<int>(static_cast<size_t>(axes), side), directions};
    INFO(text(shape));
    const int64_t n = int64_t{64} * shape.ranks() * shape.rings();
    const double bytes = 4.0 * static_cast<double>(n);
    const Times found = times(shape, n, false);
    const double gather = all_gather_torus_seconds(side, axes, directions, bytes, net);
    check_seconds(found.all_gather, gather);
    check_seconds(found.reduce_scatter,
                  reduce_scatter_torus_seconds(side, axes, directions, bytes, net));
    check_seconds(found.all_reduce, all_reduce_torus_seconds(side, axes, directions, bytes, net));
    // One axis, one direction: the ring of published_numbers; else its rate axes x directions
    // times.
    const double share = (shape.ranks() - 1.0) / shape.ranks() * bytes / shape.rings();
    check_seconds(gather, axes * (side - 1) * net.alpha + share * net.beta);
    const Times alone = times(shape, n, true, shape.ranks() / 2);
    check_seconds(alone.all_reduce, found.all_reduce);
    check_seconds(alone.all_gather, found.all_gather);
  }
  const AlphaBeta link = net;
  check_seconds(all_reduce_torus_seconds(6, 1, 1, 600, link),
                all_reduce_ring_seconds(6, 600, link));
}

TEST_CASE("axes of unequal lengths: each phase takes as long as its longest ring") {
  const TorusShape shape{{3, 4}, 2};
  const int64_t n = int64_t{12} * 4 * 16;
  const double part = 4.0 * static_cast<double>(n) / 4;
  // Parts 0, 1 gather on axis 1, then on axis 0; parts 2, 3 the other way round.
  const auto ring = [](int p, double bytes) { return all_gather_ring_seconds(p, bytes, net); };
  check_seconds(times(shape, n, false).all_gather, std::max(ring(4, part / 3), ring(3, part / 4)) +
                                                       std::max(ring(3, part), ring(4, part)));
}

TEST_CASE("a pod of 4,096 chips in one thread: six links per chip") {
  const TorusShape pod{{16, 16, 16}, 2};
  const int64_t n = int64_t{4096} * 6 * 100;
  const double bytes = 4.0 * static_cast<double>(n);
  check_seconds(times(pod, n, true).all_gather,
                45 * net.alpha + 4095.0 / 4096 * bytes / 6 * net.beta);
  check_seconds(times(pod, n, true, 1234).all_reduce,
                all_reduce_torus_seconds(16, 3, 2, bytes, net));
}

TEST_CASE("no two rings share a wire: a replay with shared wires takes no longer") {
  const std::vector<int> axes = {3, 4};
  Cluster c = machine(axes);
  c.gamma = 0;
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    TorusRings rings(world, {axes, 2});
    Tensor x = Tensor::empty({12 * 4 * 1000});
    rings.all_reduce(x);
  };
  const Timed run = run_on(c, 12, body, {.joins = true});
  check_seconds(seconds(replay(run.trace, c)), run.seconds());
}

TEST_CASE("the live rank of a mirrored cube sends to each of its six neighbours") {
  const TorusShape cube{{4, 4, 4}, 2};
  const int chip = 1 + 4 * 2 + 16 * 3;
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor x = Tensor::empty({64 * 6});
    TorusRings::mirrored(world, cube, chip).all_reduce(x);
  };
  const Timed run = run_on(machine(cube.axes), 1, body, {.chips = {chip}});
  std::set<int> chips;
  for (const TraceEvent& event : run.trace.ranks[0])
    if (event.kind == EventKind::send) chips.insert(event.peer - first_image);
  CHECK(chips == std::set{chip - 1, chip + 1, chip - 4, chip + 4, chip - 16, chip - 48});
}

TEST_CASE("what is no torus, and what does not fit, is refused") {
  const auto refused = [](int p, const TorusShape& shape) {
    return message_of(
        [&] { run_ranks(p, [&](Communicator& world) { TorusRings(world, shape); }); });
  };
  CHECK(contains(refused(4, {{3}, 2}), "a torus of 3 chips needs as many ranks, not 4"));
  CHECK(contains(refused(4, {{2, 2}, 2}), "an axis of 2 chips has no ring of 2 directions"));
  CHECK(contains(refused(1, {{0}, 1}), "an axis of 0 chips"));
  CHECK(contains(refused(1, {{}, 1}), "a torus has at least one axis"));
  CHECK(contains(refused(3, {{3}, 3}), "1 or 2 directions, not 3"));
  const auto wrong = [](auto body) {
    return message_of([&] {
      run_ranks(3, [&](Communicator& world) {
        TorusRings rings(world, {{3}, 2});
        body(rings);
      });
    });
  };
  CHECK(contains(wrong([](TorusRings& rings) {
                   std::vector<float> all(10), chunk(3);
                   rings.all_gather(all, chunk);
                 }),
                 "in, this rank's chunk, has 3 f32 on cpu; expected 4 f32 on cpu"));
  CHECK(contains(wrong([](TorusRings& rings) {
                   std::vector<float> all(9);
                   std::vector<double> chunk(3);
                   rings.reduce_scatter(chunk, all);
                 }),
                 "out, this rank's chunk, has 3 f64 on cpu; expected 3 f32"));
}
