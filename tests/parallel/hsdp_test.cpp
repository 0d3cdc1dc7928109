#include "yotta/parallel/hsdp.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/model/files/sharded_checkpoint.hpp"
#include "yotta/nn/grad_clip.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {5, 6};  // 36 numbers per layer: not a multiple of 8
constexpr int64_t rows = 13;             // does not divide by any number of ranks
constexpr int64_t steps = 3;
constexpr int worlds[] = {1, 2, 3, 4, 5, 6, 7, 8};

// Calls what(world, group size) for every world above 0 ranks and every group size in it.
void for_all_groups(const std::function<void(int, int)>& what) {
  for (const int ranks : worlds)
    for (int p = 1; p <= ranks; ++p)
      if (ranks % p == 0) {
        CAPTURE(ranks);
        CAPTURE(p);
        what(ranks, p);
      }
}

// One step's microbatches on this rank's rows; returns their part of the loss.
double run_step(Hsdp& hsdp, const Communicator& world, int64_t step, int64_t microbatches) {
  const int64_t first = chunk_begin(rows, world.size(), world.rank());
  const int64_t count = chunk_count(rows, world.size(), world.rank());
  double loss = 0;
  for (int64_t i = 0; i < microbatches; ++i) {
    hsdp.before_microbatch(i + 1 == microbatches);
    loss += run_microbatch(hsdp.stack(), step, first + chunk_begin(count, microbatches, i),
                           first + chunk_begin(count, microbatches, i + 1), net.width, rows);
  }
  hsdp.finish();
  return loss;
}

// Three steps of AdamW; each group's copy of the model goes into a Trained of its own.
void train(Communicator& world, int p, const HsdpOptions& options, int64_t microbatches,
           std::deque<Trained>& out) {
  const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
  const HsdpRanks ranks = hsdp_ranks(world, p);
  Trained& mine = out[static_cast<size_t>(ranks.replicas.rank())];
  Hsdp hsdp(model, ranks, options);
  AdamW optimizer(parameters(hsdp.stack()));
  for (int64_t step = 0; step < steps; ++step) {
    zero_gradients(hsdp.stack());
    std::vector<double> loss = {run_step(hsdp, world, step, microbatches)};
    world.all_reduce(loss);
    if (ranks.group.rank() == 0) mine.losses.push_back(loss[0]);
    for (const FsdpUnit& unit : hsdp.units())
      for (const ParameterShard& shard : unit.shards())
        if (step == 0) add_gradients(mine.gradients, shard);
    optimizer.step(0.01);
  }
  for (const FsdpUnit& unit : hsdp.units())
    for (const ParameterShard& shard : unit.shards()) add_values(mine.weights, shard);
}

void check_training(int ranks, int p, const HsdpOptions& options, int64_t microbatches,
                    const Trained& serial) {
  std::deque<Trained> copies(static_cast<size_t>(ranks / p));
  run_ranks(ranks, [&](Communicator& world) { train(world, p, options, microbatches, copies); });
  for (const Trained& copy : copies) check_same(copy, serial, ranks);
}

constexpr int64_t padded(int64_t numbers, int64_t ranks) {
  return (numbers + ranks - 1) / ranks * ranks;
}

// Elements that the ranks send in one step, rank by rank: inside, between.
std::vector<HsdpSent> sent_by(int ranks, int p, const LinearNetConfig& config,
                              int64_t microbatches) {
  std::vector<HsdpSent> all(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(config, {1, DType::f64});
    Hsdp hsdp(model, hsdp_ranks(world, p), {.replicas = {Algorithm::ring}});
    for (int64_t i = 0; i < microbatches; ++i) {
      hsdp.before_microbatch(i + 1 == microbatches);
      run_microbatch(hsdp.stack(), 0, 0, 2, config.width, rows);
    }
    hsdp.finish();
    const Ledger& ledger = context().ledger;
    all[static_cast<size_t>(world.rank())] = {
        (ledger.traffic("fsdp.all_gather").bytes_sent + ledger.traffic("fsdp.reduce").bytes_sent) /
            8,
        ledger.traffic("hsdp.all_reduce").bytes_sent / 8};
  });
  return all;
}

}  // namespace

TEST_CASE("losses, gradients and weights of every copy equal the single rank's") {
  Trained serial;
  train_serial(net, rows, steps, serial);
  for_all_groups([&](int ranks, int p) {
    for (const int64_t microbatches : {1, 2, 3})
      for (const bool overlap : {true, false})
        check_training(ranks, p, {.overlap = overlap}, microbatches, serial);
  });
}

TEST_CASE("FSDP's options, and the way of the all_reduces, change no value") {
  Trained serial;
  train_serial(net, rows, steps, serial);
  const CommOptions by_rack = {Algorithm::hierarchical, nullptr, 2};
  for (const FsdpOptions& fsdp :
       {FsdpOptions{.layers_per_unit = 2}, FsdpOptions{.prefetch = false},
        FsdpOptions{.reshard_after_forward = false}, FsdpOptions{.keep_last = true}})
    check_training(4, 2, {.fsdp = fsdp}, 2, serial);
  for (const int p : {1, 2, 4}) check_training(8, p, {.replicas = by_rack}, 2, serial);
}

TEST_CASE("a group is neighbours; replicas hold the same shard; groups divide the world") {
  run_ranks(6, [&](Communicator& world) {
    const HsdpRanks ranks = hsdp_ranks(world, 2);
    const int first = world.rank() / 2 * 2, place = world.rank() % 2;
    CHECK(ranks.group.members() == std::vector<int>{first, first + 1});
    CHECK(ranks.replicas.members() == std::vector<int>{place, place + 2, place + 4});
    CHECK(contains(message_of([&] { hsdp_ranks(world, 4); }),
                   "groups of 4 ranks do not divide a world of 6"));
  });
}

TEST_CASE("copies that start from other weights train from group 0's") {
  run_ranks(4, [&](Communicator& world) {
    const HsdpRanks ranks = hsdp_ranks(world, 2);
    const auto seed = static_cast<uint64_t>(1 + ranks.replicas.rank());
    const std::vector<LayerPtr> model = make_linear_net(net, {seed, DType::f64});
    const std::vector<LayerPtr> first = make_linear_net(net, {1, DType::f64});
    const Fsdp expected(first, ranks.group);
    const Hsdp hsdp(model, ranks);
    const std::vector<ParameterPtr> mine = parameters(hsdp.stack());
    const std::vector<ParameterPtr> wanted = parameters(expected.stack());
    for (size_t i = 0; i < mine.size(); ++i)
      CHECK(mine[i]->value.values() == wanted[i]->value.values());
  });
}

TEST_CASE("whole weights stay inside; what crosses is 2 N/p (R-1)/R elements, once a step") {
  constexpr LinearNetConfig even = {3, 12};  // 144 numbers per layer
  for_all_groups([&](int ranks, int p) {
    if (144 % ranks != 0) return;  // the formula is for what divides
    for (const int64_t microbatches : {1, 3}) {
      const int R = ranks / p;
      const HsdpSent formula = hsdp_elements_sent(p, R, parameters(even), microbatches);
      for (const HsdpSent& sent : sent_by(ranks, p, even, microbatches)) {
        CHECK(sent.inside == formula.inside);
        CHECK(sent.between == formula.between);
      }
      // Sizes that do not divide: all ranks together. What is between groups has no padding.
      HsdpSent all;
      for (const HsdpSent& sent : sent_by(ranks, p, net, microbatches))
        all.inside += sent.inside, all.between += sent.between;
      const int64_t N = net.layers * padded(net.width * net.width, p);
      CHECK(all.inside == ranks * microbatches * fsdp_elements_sent(p, N, 0));
      CHECK(all.between == ddp_bytes_sent_by_all(R, parameters(net)));
    }
  });
}

TEST_CASE("three levels: pods get a rack's part of a shard, and the rack the rest") {
  Cluster machine = ideal(8);
  machine.levels = {{"node", 2, 0, 1}, {"rack", 4, 0, 2}, {"pod", 8, 0, 4}};
  constexpr LinearNetConfig even = {2, 48};
  const auto bytes = [&](CommOptions replicas) {
    const Timed run = run_on(machine, 8, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(even, {1, DType::f64});
      Hsdp hsdp(model, hsdp_ranks(world, 2), {.replicas = replicas});
      run_microbatch(hsdp.stack(), 0, 0, 2, even.width, rows);
      hsdp.finish();
    });
    std::vector<int64_t> by_level(3);  // of rank 2, which has neighbours on every level
    for (const TraceEvent& event : run.trace.ranks[2])
      if (event.kind == EventKind::send && event.name.find("sdp.") != std::string_view::npos)
        by_level[static_cast<size_t>(machine.link(2, event.peer).level)] += event.bytes;
    return by_level;
  };
  const int64_t N = 8 * parameters(even), shard = N / 2;
  // Two groups a rack, two racks: in the rack twice half a shard, between racks twice a quarter.
  CHECK(bytes({Algorithm::hierarchical, nullptr, 2}) ==
        std::vector<int64_t>{3 * N / 2, shard, shard / 2});
  // One ring over four copies: rank 2's next copy is in the other rack, and gets all of it.
  CHECK(bytes({Algorithm::ring}) == std::vector<int64_t>{3 * N / 2, 0, 3 * shard / 2});
}

TEST_CASE("a rank holds 16 N/p bytes of weights, gradients and AdamW's state (f32)") {
  for_all_groups([&](int ranks, int p) {
    constexpr LinearNetConfig even = {3, 24};
    if (24 * 24 % ranks != 0) return;
    run_ranks(ranks, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(even);
      Hsdp hsdp(model, hsdp_ranks(world, p));
      AdamW optimizer(parameters(hsdp.stack()));
      context().ledger.memory()->reset_peaks();
      const Tensor x = Tensor::full({2, even.width}, 1);
      for (const bool last : {false, true}) {
        hsdp.before_microbatch(last);
        Saved saved({0, 0, 0, 0, true});
        const Tensor y = forward(hsdp.stack(), x, saved);
        backward(hsdp.stack(), y, saved);
      }
      hsdp.finish();
      optimizer.step(0.01);
      const MemoryCount& memory = *context().ledger.memory();
      CHECK(memory.live(MemoryKind::parameters) + memory.live(MemoryKind::gradients) +
                memory.live(MemoryKind::optimizer) ==
            16 * parameters(even) / p);
      CHECK(memory.live(MemoryKind::buffers) == 0);
      CHECK(memory.peak(MemoryKind::buffers) == 4 * fsdp_peak_elements(p, even.width * even.width));
    });
  });
}

TEST_CASE("the smallest group that fits") {
  constexpr int64_t N = 1000;
  CHECK(smallest_group(8, N, 16 * N) == 1);
  CHECK(smallest_group(8, N, 16 * N - 1) == 2);
  CHECK(smallest_group(12, N, 16 * N / 5) == 6);  // 5 does not divide 12
  CHECK(smallest_group(8, N, 2 * N) == 8);
  CHECK(smallest_group(8, N, 2 * N - 1) == 0);
}

TEST_CASE("units leave while backward goes on, in the last microbatch only") {
  run_ranks(4, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    Hsdp hsdp(model, hsdp_ranks(world, 2));
    const auto pass = [&] { run_microbatch(hsdp.stack(), 0, 0, 2, net.width, rows); };
    for (int step = 0; step < 2; ++step) {
      for (int i = 0; i < 2; ++i) {
        hsdp.before_microbatch(false);
        pass();
        CHECK(hsdp.launched() == 0);
      }
      hsdp.before_microbatch(true);
      CHECK(hsdp.launched() == 0);  // the sum that was under way is of the microbatch before
      pass();
      CHECK(hsdp.launched() == net.layers - 1);
      hsdp.finish();
    }
    pass();  // a step of one microbatch
    CHECK(hsdp.launched() == net.layers - 1);
    hsdp.finish();
  });
  run_ranks(4, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    Hsdp late(model, hsdp_ranks(world, 2), {.overlap = false});
    run_microbatch(late.stack(), 0, 0, 2, net.width, rows);
    CHECK(late.launched() == 0);
    late.finish();
  });
}

TEST_CASE("the naive way ends with the same gradients, and sends the same bytes") {
  Trained naive, real;
  int64_t sent[2] = {};
  run_ranks(4, [&](Communicator& world) {
    const HsdpRanks ranks = hsdp_ranks(world, 2);
    const auto take = [&](const std::deque<FsdpUnit>& units, Trained& to) {
      for (const FsdpUnit& unit : units)
        for (const ParameterShard& shard : unit.shards()) add_gradients(to.gradients, shard);
    };
    const std::vector<LayerPtr> a = make_linear_net(net, {1, DType::f64});
    Fsdp fsdp(a, ranks.group);
    run_microbatch(fsdp.stack(), 0, world.rank(), world.rank() + 1, net.width, rows);
    reduce_over_replicas(fsdp, ranks.replicas);
    take(fsdp.units(), naive);
    const std::vector<LayerPtr> b = make_linear_net(net, {1, DType::f64});
    Hsdp hsdp(b, ranks);
    run_microbatch(hsdp.stack(), 0, world.rank(), world.rank() + 1, net.width, rows);
    hsdp.finish();
    take(hsdp.units(), real);
    if (world.rank() > 0) return;
    sent[0] = context().ledger.traffic("ddp.gradients").bytes_sent;
    sent[1] = context().ledger.traffic("hsdp.all_reduce").bytes_sent;
  });
  check_equal(real.gradients.values(), naive.gradients.values(), 4, "gradients");
  CHECK(sent[0] == sent[1]);
  CHECK(sent[0] > 0);
}

TEST_CASE("the norm for clipping is the whole model's, on every rank") {
  const std::vector<LayerPtr> whole = make_linear_net(net, {1, DType::f64});
  run_microbatch(whole, 0, 0, rows, net.width, rows);
  const double expected = sum_of_squares(parameters(Layers(whole)));
  for_all_groups([&](int ranks, int p) {
    run_ranks(ranks, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
      Hsdp hsdp(model, hsdp_ranks(world, p));
      run_step(hsdp, world, 0, 2);
      const double squares = hsdp.sum_of_squares(sum_of_squares(parameters(hsdp.stack())));
      CHECK(std::abs(squares - expected) <= 1e-12 * expected);
    });
  });
}

TEST_CASE("a unit of which a rank holds only padding") {
  constexpr LinearNetConfig tiny = {3, 1};  // one number per layer
  run_ranks(8, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(tiny, {1, DType::f64});
    Hsdp hsdp(model, hsdp_ranks(world, 4));
    CHECK(parameters(hsdp.stack()).size() == (world.rank() % 4 == 0 ? 3 : 0));
    const double before = run_microbatch(hsdp.stack(), 0, 0, 1, 1, rows);
    hsdp.finish();
    CHECK(before > 0);
  });
}

TEST_CASE("what one group saves, groups of any other size go on with") {
  Trained serial;
  train_serial(net, rows, 2, serial);
  const TemporaryFolder folder;
  const auto shards_of = [](Hsdp& hsdp) {
    std::vector<ParameterShard> all;
    for (const FsdpUnit& unit : hsdp.units())
      all.insert(all.end(), unit.shards().begin(), unit.shards().end());
    return all;
  };
  run_ranks(4, [&](Communicator& world) {
    HsdpRanks ranks = hsdp_ranks(world, 2);
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    Hsdp hsdp(model, ranks);
    AdamW optimizer(parameters(hsdp.stack()));
    run_step(hsdp, world, 0, 1);
    optimizer.step(0.01);
    if (ranks.replicas.rank() == 0)  // each number once
      save_sharded(folder.path(), ranks.group, shards_of(hsdp), optimizer, 1);
  });
  for_all_groups([&](int ranks, int p) {
    std::deque<Trained> copies(static_cast<size_t>(ranks / p));
    run_ranks(ranks, [&](Communicator& world) {
      const HsdpRanks among = hsdp_ranks(world, p);
      const std::vector<LayerPtr> model = make_linear_net(net, {7, DType::f64});
      Hsdp hsdp(model, among);
      AdamW optimizer(parameters(hsdp.stack()));
      CHECK(load_sharded(folder.path(), shards_of(hsdp), optimizer) == 1);
      run_step(hsdp, world, 1, 2);
      optimizer.step(0.01);
      for (const ParameterShard& shard : shards_of(hsdp))
        add_values(copies[static_cast<size_t>(among.replicas.rank())].weights, shard);
    });
    for (const Trained& copy : copies)
      check_equal(copy.weights.values(), serial.weights.values(), ranks, "weights");
  });
}
