// The closed form of a step's time against HSDP's own code, run on a described machine of two
// levels; and what the sweep over group sizes finds.
#include "yotta/parallel/hsdp_cost.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/hsdp.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t width = 48, rows = 6;  // 18 KiB per layer
constexpr int64_t layer = width * width;

// Groups of p with links of `fast` bytes/s, joined by links of `slow`.
Cluster two_levels(int p, int R, double fast, double slow) {
  Cluster machine = ideal(p * R, 1);
  machine.levels = {{"node", p, 0, 1 / fast}, {"cluster", p * R, 0, 1 / slow}};
  return machine;
}

double measured(int p, int R, int64_t layers, double fast, double slow, bool overlap,
                int64_t microbatches) {
  double start = 0;  // when all have the first copy's weights
  const Timed run = run_on(two_levels(p, R, fast, slow), p * R, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net({layers, width}, {1, DType::f64});
    Hsdp hsdp(model, hsdp_ranks(world, p), {.overlap = overlap, .replicas = {Algorithm::ring}});
    world.barrier();
    if (world.rank() == 0) start = context().clock->now(0).end;
    for (int64_t i = 0; i < microbatches; ++i) {
      hsdp.before_microbatch(i + 1 == microbatches);
      run_microbatch(hsdp.stack(), 0, 0, rows, width, rows);
    }
    hsdp.finish();
  });
  return run.seconds() - start;
}

HsdpTimes times(int p, int R, double fast, double slow) {
  const double flops = 2.0 * layer * rows, bytes = 8.0 * layer;
  const double trip = bytes / p * (p - 1) / fast;
  return {{flops, 2 * flops, trip, trip, static_cast<double>(layer) / p},
          2 * bytes / p / R * (R - 1) / slow};
}

}  // namespace

TEST_CASE("the time of a step is the closed form, whatever is slower") {
  for (const std::pair<int, int>& shape : {std::pair{2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 4}}) {
    const int p = shape.first, R = shape.second;
    for (const int64_t layers : {2, 3, 6})
      for (const double fast : {10.0, 1.5, 0.4, 0.1})
        for (const double slow : {5.0, 0.5, 0.1, 0.02})
          for (const bool overlap : {true, false}) {
            CAPTURE(p);
            CAPTURE(R);
            CAPTURE(layers);
            CAPTURE(fast);
            CAPTURE(slow);
            CAPTURE(overlap);
            const double seconds = measured(p, R, layers, fast, slow, overlap, 1);
            const double formula = hsdp_seconds(layers, times(p, R, fast, slow), overlap);
            CHECK(std::abs(seconds - formula) <= 1e-11 * formula);
          }
  }
}

TEST_CASE("microbatches before the last take FSDP's time, and cross no slow link") {
  for (const int64_t m : {2, 3})
    for (const double fast : {1.5, 0.4, 0.25, 0.15, 0.1})
      for (const double slow : {5.0, 0.1}) {
        const HsdpTimes t = times(2, 2, fast, slow);
        // With B < g a microbatch adds its last sum while the next one gathers.
        const double hidden = t.inside.gather > t.inside.backward ? t.inside.add : 0;
        const double before = fsdp_seconds(4, t.inside, true, false);
        const double formula = static_cast<double>(m - 1) * before + hsdp_seconds(4, t) -
                               static_cast<double>(m - 2) * hidden;
        CAPTURE(m);
        CAPTURE(fast);
        CHECK(measured(2, 2, 4, fast, slow, true, m) == doctest::Approx(formula).epsilon(1e-11));
      }
}

TEST_CASE("slow links that are fast enough show one shard's trip; without overlap all of them") {
  HsdpTimes t = times(4, 2, 2, 1);
  const double inside = fsdp_seconds(6, t.inside, true, false);
  REQUIRE(2 * t.all_reduce < t.inside.reduce + t.all_reduce);
  CHECK(hsdp_seconds(6, t) == doctest::Approx(inside + t.all_reduce).scale(0));
  CHECK(hsdp_seconds(6, t, false) == doctest::Approx(inside + 6 * t.all_reduce).scale(0));
  t.all_reduce = 0;
  CHECK(hsdp_seconds(6, t) == inside);
}

TEST_CASE("all wait for the slowest group: one that lies on two nodes, though the first does not") {
  Cluster machine = ideal(24);
  machine.levels = {{"node", 8, 0, 1}, {"cluster", 24, 0, 100}};
  const HsdpWork work{.parameters = 24e4, .units = 2, .gathered = 2, .summed = 4};
  const HsdpTimes six = hsdp_group(machine, 24, 6, work).times;
  CHECK(six.inside.gather == doctest::Approx(5 * 2 * 12e4 / 6 * 100));
  CHECK(six.inside.reduce == doctest::Approx(5 * 4 * 12e4 / 6 * 100));
  CHECK(hsdp_group(machine, 24, 4, work).times.inside.gather == doctest::Approx(3 * 2 * 12e4 / 4));
  // Two copies of 6: chips 0 and 6 share a node, chips 2 and 8 do not.
  CHECK(hsdp_group(machine, 12, 6, work).times.all_reduce ==
        doctest::Approx(2 * 4 * 12e4 / 6 / 2 * 100));
}

TEST_CASE("a group's bytes and memory, and what the sweep finds") {
  const Cluster machine = cluster_named("h100x512");
  const HsdpWork work{.parameters = 8e9, .units = 32, .tokens = 8192, .microbatches = 2};
  const HsdpGroup eight = hsdp_group(machine, 512, 8, work);
  CHECK(eight.replicas == 64);
  CHECK(eight.held == 16e9);
  CHECK(eight.borrowed == doctest::Approx(8e9 / 32 * (2 * 2 + 4 + 4 / 8.0)));
  CHECK(eight.inside == doctest::Approx(2 * 8e9 * (2 + 2 + 4) * 7 / 8));
  CHECK(eight.between == doctest::Approx(2 * 4 * 1e9 * 63 / 64));
  CHECK(eight.seconds ==
        fsdp_seconds(32, eight.times.inside, true, false) + hsdp_seconds(32, eight.times));
  const std::vector<HsdpGroup> sweep = hsdp_sweep(machine, 512, work);
  CHECK(sweep.size() == 10);
  CHECK_FALSE(sweep[0].fits);  // 128 GB
  CHECK(sweep[1].fits);
  const HsdpGroup best = best_group(sweep);
  for (const HsdpGroup& group : sweep)
    if (group.fits) CHECK(group.seconds >= best.seconds);
  // Few tokens: a group of two nodes, for a node's sends too much between, and all ranks' too much
  // inside.
  HsdpWork small = work;
  small.tokens = 2048, small.microbatches = 1;
  CHECK(best_group(hsdp_sweep(machine, 512, small)).p == 16);
  CHECK(contains(message_of([&] { hsdp_group(machine, 512, 7, work); }),
                 "groups of 7 ranks do not divide 512"));
  CHECK(contains(message_of([&] { hsdp_group(machine, 512, 8, {.parameters = 1, .units = 1}); }),
                 "1 units, 1 microbatches: a step has 2 units"));
  CHECK(contains(message_of([&] { hsdp_sweep(machine, 512, {.units = 2, .microbatches = 0}); }),
                 "2 units, 0 microbatches"));
  HsdpWork large = work;
  large.parameters = 1e14;
  CHECK(contains(message_of([&] { best_group(hsdp_sweep(machine, 512, large)); }),
                 "no group of this sweep fits"));
}
