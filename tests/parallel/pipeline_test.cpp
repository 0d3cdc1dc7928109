#include "yotta/parallel/pipeline.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Sizes of a run of the linear net.
struct Sizes {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int p = 1;
  int64_t m = 1;
  int v = 1;
  int64_t layers = 8, width = 4, rows = 3;  // rows of a microbatch, and one more in every other one
};

std::vector<PipelineMicrobatch> inputs(const Sizes& s) {
  std::vector<PipelineMicrobatch> all;
  for (int64_t i = 0; i < s.m; ++i) {
    const int64_t rows = s.rows + i % 2;
    all.push_back({batch_rows("x", i, 0, rows, s.width), {rows, s.width}, DType::f64, {}});
  }
  return all;
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradients, weights;  // of the whole net, in order; weights after three steps
};

void take_step(const std::vector<ParameterPtr>& parameters) {
  for (const ParameterPtr& each : parameters)
    for (int64_t i = 0; i < each->value.numel(); ++i)
      each->value.data<double>()[i] -= 0.01 * each->grad.data<double>()[i];
}

Outcome serial(const Sizes& s) {
  const std::vector<LayerPtr> net = make_linear_net({s.layers, s.width}, {1, DType::f64});
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    zero_gradients(net);
    double loss = 0;
    for (size_t i = 0; const PipelineMicrobatch& each : inputs(s)) {
      Saved saved;
      Tensor dy;
      loss += square_loss(i++, forward(net, each.x, saved), dy);
      backward(net, dy, saved);
    }
    if (step == 0) outcome.loss = loss;
    for (const ParameterPtr& each : parameters(Layers(net)))
      if (step == 0) append(outcome.gradients, each->grad);
    take_step(parameters(Layers(net)));
  }
  for (const ParameterPtr& each : parameters(Layers(net))) append(outcome.weights, each->value);
  return outcome;
}

using Chunks = std::vector<std::vector<LayerPtr>>;

Chunks make_chunks(const Sizes& s, int rank, DType dtype = DType::f64) {
  Chunks chunks;
  for (int c = 0; c < s.v; ++c) {
    const StageLayers mine = layers_of_stage(s.layers, s.p * s.v, rank + c * s.p);
    chunks.push_back(make_linear_net({s.layers, s.width}, mine.first, mine.last, {1, dtype}));
  }
  return chunks;
}
std::vector<Layers> views(const Chunks& chunks) { return {chunks.begin(), chunks.end()}; }

// Three steps on this rank. Puts gradients and weights where they belong in the whole net.
void train(Communicator& comm, const Sizes& s, const PipelineSchedule& schedule, Outcome& whole) {
  const Chunks chunks = make_chunks(s, comm.rank());
  Pipeline pipeline(comm, views(chunks));
  const auto place_of = [&](int c) {
    const StageLayers mine = layers_of_stage(s.layers, s.p * s.v, comm.rank() + c * s.p);
    return static_cast<size_t>(mine.first * s.width * s.width);
  };
  const auto write = [&](std::vector<double>& to, auto tensor_of) {
    for (int c = 0; c < s.v; ++c) {
      std::vector<double> mine;
      for (const ParameterPtr& each : parameters(Layers(chunks[static_cast<size_t>(c)])))
        append(mine, tensor_of(*each));
      std::copy(mine.begin(), mine.end(), to.begin() + static_cast<std::ptrdiff_t>(place_of(c)));
    }
  };
  for (int step = 0; step < 3; ++step) {
    for (const auto& chunk : chunks) zero_gradients(chunk);
    const PipelineReport report = pipeline.run(schedule, inputs(s), square_loss);
    CHECK(report.most_saved == most_in_flight(schedule.by_rank[size_t(comm.rank())]));
    if (step == 0 && comm.rank() + 1 == s.p) whole.loss = report.loss;
    if (step == 0) write(whole.gradients, [](Parameter& each) { return each.grad; });
    for (const auto& chunk : chunks) take_step(parameters(Layers(chunk)));
  }
  write(whole.weights, [](Parameter& each) { return each.value; });
}

void check_equal(const std::vector<double>& actual, const std::vector<double>& expected,
                 const char* what) {
  Clues clues;
  clues.what = what;
  const Verdict verdict = compare(actual, expected, 1e-12, clues);
  CHECK_MESSAGE(verdict.equal, verdict.text);
}

void check_run(const Sizes& s, const PipelineSchedule& schedule) {
  CAPTURE(schedule.name);
  CAPTURE(s.p);
  CAPTURE(s.m);
  CAPTURE(s.v);
  CAPTURE(s.layers);
  const Outcome expected = serial(s);
  Outcome whole{0, std::vector<double>(expected.gradients.size()),
                std::vector<double>(expected.weights.size())};
  run_ranks(s.p, [&](Communicator& world) { train(world, s, schedule, whole); });
  CHECK(whole.loss == doctest::Approx(expected.loss).epsilon(1e-12));
  check_equal(whole.gradients, expected.gradients, "gradients of the first step");
  check_equal(whole.weights, expected.weights, "weights after 3 steps");
}
void check_run(const Sizes& s) { check_run(s, make_schedule(s.kind, s.p, s.m, s.v)); }

// B of every action cut in I and W.
PipelineSchedule halved(PipelineSchedule schedule) {
  for (PipelineActions& actions : schedule.by_rank) {
    PipelineActions halves;
    for (const PipelineAction& a : actions)
      if (a.op == PipelineOp::B) {
        halves.push_back({a.stage, PipelineOp::I, a.microbatch});
        halves.push_back({a.stage, PipelineOp::W, a.microbatch});
      } else {
        halves.push_back(a);
      }
    actions = halves;
  }
  schedule.name += ", halves";
  return schedule;
}

constexpr PipelineKind kinds[] = {PipelineKind::naive, PipelineKind::gpipe,
                                  PipelineKind::one_f_one_b, PipelineKind::interleaved};

}  // namespace

TEST_CASE("messages: F goes down the stages, B and I go up, W is nobody's business") {
  const PipelineSchedule three = make_schedule(PipelineKind::gpipe, 3, 1);
  const PipelineMessages messages({}, three);
  const auto route = [&](int stage, PipelineOp op) {
    const PipelineMessages::Route found = messages.route({stage, op, 0});
    return std::pair{found.from, found.to};
  };
  CHECK(route(0, PipelineOp::F) == std::pair{-1, 1});
  CHECK(route(1, PipelineOp::F) == std::pair{0, 2});
  CHECK(route(2, PipelineOp::F) == std::pair{1, -1});
  for (const PipelineOp back : {PipelineOp::B, PipelineOp::I}) {
    CHECK(route(2, back) == std::pair{-1, 1});
    CHECK(route(1, back) == std::pair{2, 0});
    CHECK(route(0, back) == std::pair{1, -1});
  }
  CHECK(route(1, PipelineOp::W) == std::pair{-1, -1});
}

TEST_CASE("messages: each action gets what it needs, and what has arrived is let go") {
  // The name of a result as a number: who made it.
  const auto number = [](const PipelineAction& a) {
    return 1000.0 * a.stage + 100 * static_cast<int>(a.op) + static_cast<double>(a.microbatch);
  };
  const int64_t size = 512, m = 8;
  for (const int v : {1, 2}) {
    CAPTURE(v);
    std::vector<int64_t> peak(4);
    run_ranks(4, [&](Communicator& pp) {
      const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, 4, m, v);
      PipelineMessages messages(pp, schedule);
      for (const PipelineAction& a : schedule.by_rank[static_cast<size_t>(pp.rank())]) {
        const int from = messages.route(a).from;
        const Tensor got = messages.receive(a, {size}, DType::f64);
        CHECK(got.defined() == (from >= 0));
        if (from >= 0) CHECK(got.data<double>()[size - 1] == number({from, a.op, a.microbatch}));
        messages.send(a, Tensor::full({size}, number(a), DType::f64));
      }
      messages.finish();
      peak[static_cast<size_t>(pp.rank())] =
          context().ledger.memory()->peak(MemoryKind::activations);
    });
    // One y for each microbatch in flight, one dx, and what is in hand: far from all m of them.
    if (v == 1)
      for (int rank = 0; rank < 4; ++rank)
        CHECK(peak[static_cast<size_t>(rank)] <= (in_flight_1f1b(rank, 4, m) + 4) * size * 8);
  }
  CHECK(contains(message_of([] {
                   const PipelineSchedule two = make_schedule(PipelineKind::interleaved, 1, 1, 2);
                   PipelineMessages({}, two).receive({1, PipelineOp::F, 0}, {1}, DType::f64);
                 }),
                 "1F0 comes before what it needs"));
}

TEST_CASE(
    "losses, gradients and weights equal the single rank's: every schedule, uneven stages, m < p") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int64_t m : {1, 3, 8})
      for (const PipelineKind kind : kinds)
        for (const int v : {1, 2, 3})
          if (v == 1 || kind == PipelineKind::interleaved)
            check_run(
                {kind, p, m, v, 11});  // 11 layers divide by none of the stages; some have none
}

TEST_CASE("dgrad and wgrad apart, and a schedule of one's own") {
  const Sizes s{PipelineKind::one_f_one_b, 3, 4};
  check_run(s, halved(make_schedule(s.kind, s.p, s.m)));
  PipelineSchedule mine = make_schedule(PipelineKind::gpipe, 3, 4);  // backward in reverse order
  mine.name = "GPipe, last first";
  for (PipelineActions& actions : mine.by_rank) std::reverse(actions.begin() + 4, actions.end());
  check_run(s, mine);
}

TEST_CASE("before_backward says which microbatch of a chunk goes backward last, in any order") {
  const auto told = [](PipelineSchedule schedule, const Sizes& s) {
    std::string flags;
    run_ranks(s.p, [&](Communicator& world) {
      std::string mine;
      const Chunks chunks = make_chunks(s, world.rank());
      Pipeline pipeline(world, views(chunks), [&](bool last) { mine += last ? 'L' : '.'; });
      pipeline.run(schedule, inputs(s), square_loss);
      if (world.rank() == 0) flags = mine;
    });
    return flags;
  };
  const Sizes s{PipelineKind::gpipe, 2, 4};
  PipelineSchedule reversed = make_schedule(PipelineKind::gpipe, 2, 4);
  CHECK(told(reversed, s) == "...L");
  for (PipelineActions& actions : reversed.by_rank)
    std::reverse(actions.begin() + 4, actions.end());
  CHECK(told(reversed, s) == "...L");
  CHECK(told(halved(make_schedule(PipelineKind::gpipe, 2, 2)), {PipelineKind::gpipe, 2, 2}) ==
        "..LL");
  const Sizes two{PipelineKind::interleaved, 2, 2, 2};
  CHECK(told(make_schedule(two.kind, 2, 2, 2), two) == ".L.L");
}

TEST_CASE("a schedule in the wrong order is refused, not run") {
  const Sizes s{PipelineKind::gpipe, 1, 1};
  PipelineSchedule wrong = make_schedule(PipelineKind::gpipe, 1, 1);
  std::swap(wrong.by_rank[0][0], wrong.by_rank[0][1]);
  CHECK_THROWS_WITH_AS(
      run_ranks(1,
                [&](Communicator& world) {
                  const Chunks chunks = make_chunks(s, 0);
                  Pipeline(world, views(chunks)).run(wrong, inputs(s), square_loss);
                }),
      doctest::Contains("0B0 comes before its F"), RankFailed);
}

TEST_CASE(
    "nobody waits forever: p <= 8, m <= 16, every schedule, sends that wait for their receiver") {
  RunOptions unbuffered;
  unbuffered.buffered_sends = false;
  unbuffered.threads = 1;
  for (int p = 1; p <= 8; ++p)
    run_ranks(
        p,
        [&](Communicator& world) {
          for (int64_t m = 1; m <= 16; ++m)
            for (const PipelineKind kind : kinds)
              for (const int v : {1, 2}) {
                if (v == 2 && kind != PipelineKind::interleaved) continue;
                const Sizes s{kind, p, m, v, 0, 2, 1};  // stages without layers: only messages
                const Chunks chunks = make_chunks(s, world.rank());
                Pipeline pipeline(world, views(chunks));
                pipeline.run(make_schedule(kind, p, m, v), inputs(s), square_loss);
              }
        },
        unbuffered);
  CHECK(true);
}

TEST_CASE(
    "on machine ideal the busy share is 1 - (p-1)/(vm+p-1), and time is the timeline's to 1e-12") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int64_t m : {1, 4, 8})
      for (const PipelineKind kind : kinds)
        for (const int v : {1, 2}) {
          if (v == 2 && (kind != PipelineKind::interleaved || m % p != 0)) continue;
          CAPTURE(p);
          CAPTURE(m);
          CAPTURE(std::string(name(kind)));
          Sizes s{kind, p, m, v, int64_t{p} * v * 2, 4, 3};
          const PipelineSchedule schedule = make_schedule(kind, p, m, v);
          const Timed run = run_on(ideal(), p, [&](Communicator& world) {
            const Chunks chunks = make_chunks(s, world.rank());
            Pipeline pipeline(world, views(chunks));
            std::vector<PipelineMicrobatch> equal(static_cast<size_t>(m), inputs(s)[0]);
            pipeline.run(schedule, equal, square_loss);
          });
          const double stage = 2 * forward_flops({1, s.width}, s.rows);  // seconds: 1 FLOP/s
          const double expected = simulate(schedule, {stage, stage, stage}).length;
          CHECK(run.seconds() == doctest::Approx(expected).epsilon(1e-12));
          const double busy = kind == PipelineKind::naive ? 1.0 / p : 1 - bubble_of_total(p, m, v);
          for (int rank = 0; rank < p; ++rank)
            CHECK(run.busy_share(rank) == doctest::Approx(busy).epsilon(1e-12));
        }
}

TEST_CASE("with slow messages the real run takes the timeline's time too") {
  Cluster slow = ideal();
  slow.levels[0].alpha = 7.25;
  for (const PipelineKind kind : kinds) {
    const Sizes s{kind, 4, 8, kind == PipelineKind::interleaved ? 2 : 1, 8};
    const PipelineSchedule schedule = halved(make_schedule(kind, s.p, s.m, s.v));
    const Timed run = run_on(slow, s.p, [&](Communicator& world) {
      const Chunks chunks = make_chunks(s, world.rank());
      Pipeline pipeline(world, views(chunks));
      std::vector<PipelineMicrobatch> equal(static_cast<size_t>(s.m), inputs(s)[0]);
      pipeline.run(schedule, equal, square_loss);
    });
    const double stage = 2.0 / s.v * forward_flops({1, s.width}, s.rows);
    CHECK(run.seconds() ==
          doctest::Approx(simulate(schedule, {stage, stage, stage, 7.25}).length).epsilon(1e-12));
  }
}

TEST_CASE(
    "live activations and messages are counted: min(p-s, m) for 1F1B, m for GPipe, 2(pv-1) "
    "messages") {
  for (const PipelineKind kind : kinds)
    for (const int64_t m : {2, 8}) {
      const int v = kind == PipelineKind::interleaved ? 2 : 1;
      const Sizes s{kind, 4, m, v, 16, 4, 32};
      CAPTURE(std::string(name(kind)));
      CAPTURE(m);
      std::vector<int64_t> sent(4), bytes(4), peak(4);
      run_ranks(4, [&](Communicator& world) {
        const Chunks chunks = make_chunks(s, world.rank());
        for (const auto& chunk : chunks)
          for (const ParameterPtr& each : parameters(Layers(chunk))) each->gradient();
        Pipeline pipeline(world, views(chunks));
        std::vector<PipelineMicrobatch> equal(static_cast<size_t>(m), inputs(s)[0]);
        context().ledger.reset();
        pipeline.run(make_schedule(kind, 4, m, v), equal, square_loss);
        const size_t r = static_cast<size_t>(world.rank());
        sent[r] = context().ledger.traffic("send").messages_sent;
        bytes[r] = context().ledger.traffic("send").bytes_sent;
        peak[r] = context().ledger.memory()->peak(MemoryKind::activations);
      });
      const int64_t x = s.rows * s.width * 8;  // one tensor between stages
      int64_t messages = 0, all_bytes = 0;
      for (int r = 0; r < 4; ++r) messages += sent[size_t(r)], all_bytes += bytes[size_t(r)];
      CHECK(messages == 2 * (4 * v - 1) * m);
      CHECK(all_bytes == messages * x);
      // Each microbatch in flight holds its Saved, an x for each layer, and the tensor that was
      // sent on; at most five more are in hand or under way. (Stage 0's x are the caller's.)
      for (int r = 0; r < 4; ++r) {
        CAPTURE(r);
        const PipelineSchedule schedule = make_schedule(kind, 4, m, v);
        const int64_t live = most_in_flight(schedule.by_rank[static_cast<size_t>(r)]);
        const int64_t saved = live * s.layers / schedule.stages * x;
        CHECK(peak[size_t(r)] >= saved - live * x);
        CHECK(peak[size_t(r)] <= saved + (live + 5) * x);
      }
    }
}

TEST_CASE("a stage may be checkpointed, and before_backward says when gradients become final") {
  const Sizes s{PipelineKind::one_f_one_b, 2, 3};
  const Outcome expected = serial(s);
  run_ranks(2, [&](Communicator& world) {
    const Chunks chunks = make_chunks(s, world.rank());
    const std::vector<LayerPtr> wrapped = checkpointed(chunks[0], {Recompute::all, 3});
    std::string calls;
    Pipeline pipeline(world, {wrapped}, [&](bool last) { calls += last ? "L" : "-"; });
    pipeline.run(make_schedule(s.kind, 2, 3), inputs(s), square_loss);
    CHECK(calls == "--L");
    std::vector<double> mine;
    for (const ParameterPtr& each : parameters(Layers(wrapped))) append(mine, each->grad);
    const auto half = expected.gradients.begin() + std::ssize(mine) * world.rank();
    check_equal(mine, {half, half + std::ssize(mine)}, "gradients of checkpointed stages");
  });
}

TEST_CASE("an empty communicator is the serial case; what does not fit is said") {
  const Sizes s{PipelineKind::interleaved, 1, 3, 2};
  const Chunks chunks = make_chunks(s, 0);
  Pipeline pipeline({}, views(chunks));
  const PipelineReport report =
      pipeline.run(make_schedule(s.kind, 1, 3, 2), inputs(s), square_loss);
  CHECK(report.loss == doctest::Approx(serial(s).loss).epsilon(1e-12));
  const auto run = [&](const PipelineSchedule& schedule) {
    return error_of<Error>(1, [&](Communicator& world) {
      Pipeline one(world, views(chunks));
      one.run(schedule, inputs(s), square_loss);
    });
  };
  check_says(run(make_schedule(PipelineKind::gpipe, 2, 3)),
             {"a schedule for 2 ranks on a communicator of 1"});
  check_says(run(make_schedule(PipelineKind::gpipe, 1, 3)), {"needs 1 chunks", "not 2"});
  check_says(run(make_schedule(s.kind, 1, 2, 2)), {"for 2 microbatches was given 3"});
  const std::string error = error_of<Error>(2, [&](Communicator& world) {
    const Chunks two = make_chunks({PipelineKind::gpipe, 2, 1}, world.rank());
    std::vector<PipelineMicrobatch> wrong = inputs({PipelineKind::gpipe, 2, 1});
    wrong[0].between = {3, 5};
    Pipeline(world, views(two)).run(make_schedule(PipelineKind::gpipe, 2, 1), wrong, square_loss);
  });
  check_says(error, {"0F0 made (3, 4) f64, but (3, 5) f64 flows between stages"});
}
