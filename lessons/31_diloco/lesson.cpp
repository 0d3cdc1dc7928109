// Lesson 31: workers that seldom talk: stale gradients, means of weights, bytes and seconds between
// cities, measured losses, and the latency wall.
#include <fmt/ranges.h>

#include <fstream>
#include <optional>

#include "course/lesson/lesson.hpp"
#include "course/pictures/diloco_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/async_diloco.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/hogwild.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t workers = 4, inner = 50, megaparameters = 150, tokens = 65536;
};

// ---- nobody waits ----

void stale(Lesson& lesson) {
  lesson.section("Asynchronous SGD: how old gradients are, and the largest rate down w^2 / 2");
  lesson.say("{:>8}{:>12}{:>16}", "workers", "steps old", "largest rate");
  for (const int k : {1, 2, 4, 8, 32}) {
    const std::vector<double> seconds(static_cast<size_t>(k), 1);
    const int64_t old = async_arrivals(seconds, 3 * k).back().staleness();
    lesson.say("{:>8}{:>12}{:>16.3f}", k, old, largest_stale_rate(1, old));
    lesson.number(fmt::format("stale.{}", k), largest_stale_rate(1, old));
  }
  const std::vector<double> seconds = {1, 1, 1, 5};
  int64_t oldest[2] = {0, 0};
  for (const AsyncArrival& each : async_arrivals(seconds, 100)) {
    int64_t& of = oldest[each.worker == 3 ? 1 : 0];
    of = std::max(of, each.staleness());
  }
  lesson.say("4 workers, one 5 times as slow: its gradients are {} steps old, others' {} at most",
             oldest[1], oldest[0]);
}

void hogwild(Lesson& lesson) {
  lesson.section("Hogwild, 8 threads, played: writes that are lost, and the loss afterwards");
  lesson.say("{:>22}{:>10}{:>12}{:>12}{:>12}", "weights of a gradient", "lost", "overwrite", "add",
             "one thread");
  for (const int touched : {3, 30, 100}) {
    const HogwildProblem problem{.weights = 1000, .touched = touched};
    const auto run = [&](int threads, HogwildWrites writes) {
      return play_hogwild(problem, threads, 8000, 0.5 / touched, writes);
    };
    const HogwildRun over = run(8, HogwildWrites::overwrite), add = run(8, HogwildWrites::add);
    const double lost = static_cast<double>(over.lost) / static_cast<double>(over.writes);
    lesson.say("{:>16} of 1000{:>9.1f}%{:>12.5f}{:>12.5f}{:>12.5f}", touched, 100 * lost, over.loss,
               add.loss, run(1, HogwildWrites::add).loss);
    lesson.number(fmt::format("hogwild.lost.{}", touched), lost);
  }
}

void race(Lesson& lesson) {
  const std::vector<HogwildRow> rows = stored_hogwild();
  lesson.section(fmt::format("Measured: Hogwild on real threads, {} cores", rows[0].cores));
  lesson.say("{:>22}{:>10}{:>10}{:>12}{:>12}", "weights of a gradient", "threads", "lost",
             "overwrite", "add");
  for (const HogwildRow& row : rows) {
    lesson.say("{:>16} of 1000{:>9}{:>9.2f}%{:>12.1e}{:>12.1e}", row.touched, row.threads,
               100 * row.lost, row.loss_overwrite, row.loss_add);
    lesson.number(fmt::format("race.lost.{}.{}", row.touched, row.threads), row.lost);
  }
}

// ---- one round, by hand ----

// One weight; worker r is drawn to target r. What each holds after every inner step.
std::vector<std::vector<double>> one_weight(const std::vector<double>& targets,
                                            const DilocoOptions& options, int64_t steps) {
  std::vector<std::vector<double>> held(targets.size());
  run_ranks(static_cast<int>(targets.size()), [&](Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const ParameterPtr w = make_parameter("w", {1, 1}, false, zeros(), 0, DType::f64);
    Sgd inner({w});
    Diloco diloco(inner, world, options);
    for (int64_t step = 0; step < steps; ++step) {
      w->gradient().fill(w->value.item({0}) - targets[rank]);
      inner.step(0.5);
      held[rank].push_back(w->value.item({0}));
      if (diloco.after_step()) held[rank].push_back(w->value.item({0}));
    }
    diloco.synchronise();
  });
  return held;
}

void rounds(Lesson& lesson) {
  lesson.section("One weight, three workers with data of their own, H = 2: plain means, DiLoCo's");
  lesson.say("{:>7}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}", "", "worker 0", "worker 1",
             "worker 2", "", "worker 0", "worker 1", "worker 2");
  const std::vector<double> targets = {1, 2, 6};
  const auto plain = one_weight(targets, {.inner = 2, .learning_rate = 1, .momentum = 0}, 6);
  const auto nesterov = one_weight(targets, {.inner = 2}, 6);
  for (size_t i = 0; i < plain[0].size(); ++i) {
    std::string line = fmt::format("{:>7}", i % 3 == 2 ? "mean" : "inner");
    for (const auto& worker : plain) line += fmt::format("{:>10.3f}", worker[i]);
    line += fmt::format("{:>12}", i % 3 == 2 ? "outer step" : "");
    for (const auto& worker : nesterov) line += fmt::format("{:>10.3f}", worker[i]);
    lesson.say("{}", line);
  }
}

// Plain means of three workers in three rounds of two steps; worker 2 is away in the second round.
// What this one holds when a round begins, and at the end.
std::vector<std::string> with_one_away(const Communicator& world, double target) {
  constexpr int64_t H = 2;
  const ParameterPtr w = make_parameter("w", {1, 1}, false, zeros(), 0, DType::f64);
  Sgd inner({w});
  Diloco diloco(inner, world, {.inner = H, .learning_rate = 1, .momentum = 0});
  const Communicator others = world.split(world.rank() == 2 ? -1 : 0, world.rank());
  std::vector<std::string> held;
  for (int64_t round = 1; round <= 3; ++round) {
    const bool away = world.rank() == 2 && round == 2;
    if (round == 2 && !away) diloco.meet(others, 0);
    if (round == 3) diloco.meet(world, 0);
    held.push_back(away ? "away" : fmt::format("{:.3f}", w->value.item({0})));
    for (int64_t step = 0; step < H && !away; ++step) {
      w->gradient().fill(w->value.item({0}) - target);
      inner.step(0.5);
      diloco.after_step();
    }
  }
  held.push_back(fmt::format("{:.3f}", w->value.item({0})));
  return held;
}

void absent(Lesson& lesson) {
  lesson.section("The same, plain means, and worker 2 is away in round 2");
  const std::vector<double> targets = {1, 2, 6};
  std::vector<std::vector<std::string>> held(3);
  run_ranks(3, [&](Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    held[rank] = with_one_away(world, targets[rank]);
  });
  lesson.say("{:>20}{:>10}{:>10}{:>10}", "", "worker 0", "worker 1", "worker 2");
  for (size_t i = 0; i < held[0].size(); ++i)
    lesson.say("{:>20}{:>10}{:>10}{:>10}",
               i < 3 ? fmt::format("round {} begins", i + 1) : "the end", held[0][i], held[1][i],
               held[2][i]);
}

// ---- few bits, a slow worker ----

// What arrives of 0.03 beside a 1, fifty times, from two workers.
double fifty_rounds(int bits, bool feedback) {
  double sum = 0;
  run_ranks(2, [&](Communicator& world) {
    Lost lost;
    if (feedback) lost = {Tensor::zeros({4}), Tensor::zeros({2})};
    for (int round = 0; round < 50; ++round) {
      Tensor x = Tensor::from<float>({1, 0.03F, 1, 0.03F}, {4});
      world.collective("mean", [&](Channel& c) { quantised_mean(c, x, 1, bits, lost); });
      if (world.rank() == 0) sum += x.item({1});
    }
  });
  return sum;
}

void rounding(Lesson& lesson) {
  lesson.section("0.03 beside a 1, fifty times: 1.5 should arrive");
  for (const int bits : {8, 4})
    lesson.say("{} bits: {:.3f} without feedback, {:.3f} with it", bits, fifty_rounds(bits, false),
               fifty_rounds(bits, true));
}

void slow_worker(Lesson& lesson) {
  lesson.section("Four workers, rounds of 50 steps of 1 s, one worker 3 times as slow: 24 rounds");
  const std::vector<double> seconds = {50, 50, 50, 150}, step = {1, 1, 1, 3};
  const std::vector<AsyncArrival> all = async_arrivals(seconds, 24);
  std::vector<int64_t> rounds(4);
  int64_t oldest = 0;
  for (const AsyncArrival& each : all) {
    ++rounds[static_cast<size_t>(each.worker)];
    oldest = std::max(oldest, each.staleness());
  }
  lesson.say("all wait:        {:.0f} s, 6 rounds of each", 6 * seconds[3]);
  lesson.say("nobody waits:    {:.0f} s, rounds {}, an outer gradient is {} old at most",
             all.back().end, fmt::join(rounds, " "), oldest);
  lesson.say("fewer steps:     {} inner steps in {:.0f} s",
             fmt::join(async_inner_steps(step, 50), " "), seconds[0]);
}

// ---- bytes and seconds ----

constexpr int64_t pieces = 10;  // arrays that the described model has

struct Way {
  std::string name;
  int64_t inner;  // 0: DDP
  DilocoOptions options;
};

std::vector<Way> ways_of(int64_t H) {
  return {{"DDP", 0, {}},
          {fmt::format("H = {}", H), H, {.inner = H}},
          {fmt::format("H = {}", 10 * H), 10 * H, {.inner = 10 * H}},
          {fmt::format("H = {}, overlap", H), H, {.inner = H, .overlap = H - 1, .keep = 0.5}},
          {fmt::format("H = {}, streaming", H),
           H,
           {.inner = H, .fragments = 5, .overlap = H / 5, .keep = 0.5}},
          {fmt::format("H = {}, 8 bits", H), H, {.inner = H, .bits = 8}},
          {fmt::format("H = {}, 4 bits", H), H, {.inner = H, .bits = 4}},
          {fmt::format("H = {}, streaming, 4 bits", H),
           H,
           {.inner = H, .fragments = 5, .overlap = H / 5, .keep = 0.5, .bits = 4}}};
}

// Bytes that a worker sends in a step: those of the ring, or packed; the suite counts them in the
// ledger.
double bytes_of(const Sizes& s, const Way& way) {
  const int64_t k = s.workers, N = s.megaparameters * 1000000;
  if (way.inner == 0) return static_cast<double>(ddp_bytes_sent_by_all(k, 4 * N) / k);
  const int64_t round = way.options.bits > 0 ? packed_mean_bytes_sent(k, N, way.options.bits)
                                             : mean_bytes_sent(k, N, 4);
  return static_cast<double>(round) / static_cast<double>(k * way.inner);
}

// Seconds of a step of a model that is only described, between cities: the mean over rounds after
// the first.
double seconds_of(const Sizes& s, const Way& way, double flops) {
  const int64_t round = std::max<int64_t>(way.inner, 1), rounds = 2, N = s.megaparameters * 1000000;
  std::vector<double> seconds;  // of worker 0, after each round
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    std::vector<ParameterPtr> all;
    for (int64_t i = 0; i < pieces; ++i)
      all.push_back(
          make_parameter(fmt::format("w{}", i), {1, N / pieces}, false, zeros(), 0, DType::f32));
    Tensor gradients = Tensor::empty({N}, DType::f32);
    Sgd inner(all);
    std::optional<Diloco> diloco;
    if (way.inner > 0) diloco.emplace(inner, world, way.options);
    for (int64_t step = 1; step <= rounds * round; ++step) {
      charge({"an inner step", DType::bf16, flops, 0, 0});
      if (diloco) diloco->after_step();
      if (!diloco) world.all_reduce(gradients, ReduceOp::mean);
      if (world.rank() == 0 && step % round == 0)
        seconds.push_back(context().clock->now(compute_lane).end);
    }
    if (diloco) diloco->synchronise();
  };
  run_on(cluster_named(fmt::format("citiesx{}", s.workers)), static_cast<int>(s.workers), body,
         {.trace = false});
  return (seconds.back() - seconds.front()) / static_cast<double>((rounds - 1) * round);
}

void costs(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format(
      "{} million parameters on an H100 in each of {} cities: a step of {} tokens per worker",
      s.megaparameters, s.workers, s.tokens));
  lesson.say("{:<28}{:>14}{:>14}{:>14}", "", "MB per step", "ms per step", "computing");
  const double flops = 6e6 * static_cast<double>(s.megaparameters * s.tokens);
  const double computing = flops / chip_named("h100").bf16;
  for (const Way& way : ways_of(s.inner)) {
    const double seconds = seconds_of(s, way, flops), bytes = bytes_of(s, way);
    lesson.say("{:<28}{:>14.2f}{:>14.1f}{:>13.1f}%", way.name, bytes / 1e6, 1e3 * seconds,
               100 * computing / seconds);
    lesson.number("seconds." + way.name, seconds);
    lesson.number("bytes." + way.name, bytes);
  }
}

// ---- measured ----

void measured(Lesson& lesson) {
  const DilocoSizes sizes;
  lesson.section(fmt::format("Measured: {} steps of {} sequences on text, 4 workers in 4 cities",
                             sizes.steps, sizes.batch));
  lesson.say("{:<24}{:>14}{:>14}{:>10}", "", "MB sent", "seconds", "loss");
  for (const DilocoCurve& curve : stored_diloco_curves()) {
    const DilocoPoint& last = curve.points.back();
    lesson.say("{:<24}{:>14.1f}{:>14.2f}{:>10.3f}", curve.name, last.megabytes, last.seconds,
               last.loss);
    lesson.number("loss." + curve.name, last.loss);
  }
}

std::string text_of(const DilocoCell& cell) {
  if (cell.mean == 0) return fmt::format("{} stopped", cell.stopped);
  return fmt::format("{:.3f} ({:.3f})", cell.mean, cell.deviation);
}

void grid(Lesson& lesson) {
  lesson.section("Measured: losses of k workers that meet every H steps, mean (deviation)");
  const std::vector<DilocoCell> cells = stored_diloco_grid();
  lesson.say("one rank, plain training: {}", text_of(cells.front()));
  int64_t workers = 0;
  std::string line = fmt::format("{:>4}", "k");
  for (const int64_t inner : {1, 10, 50, 200})
    line += fmt::format("{:>18}", fmt::format("H = {}", inner));
  for (size_t i = 1; i < cells.size(); ++i) {
    if (cells[i].workers != workers) {
      lesson.say("{}", line);
      line = fmt::format("{:>4}", cells[i].workers);
    }
    workers = cells[i].workers;
    line += fmt::format("{:>18}", text_of(cells[i]));
    lesson.number(fmt::format("grid.{}.{}", cells[i].workers, cells[i].inner), cells[i].mean);
  }
  lesson.say("{}", line);
}

// ---- the wall ----

void wall(Lesson& lesson) {
  lesson.section("The latency wall: 90 days, 8 workers 50 ms apart, 1.5 ms inside a step");
  lesson.say("{:<25}{:>11}{:>12}{:>17}{:>14}{:>12}", "", "ms per step", "steps", "tokens per step",
             "tokens", "FLOPs");
  for (const auto& [name, of] : wall_ways()) {
    const LatencyBound bound = largest_run(of);
    lesson.say("{:<26}{:>10.2f}{:>12.2e}{:>17.2e}{:>14.2e}{:>12.1e}", name, 1e3 * bound.step,
               bound.steps, bound.batch, bound.tokens, bound.flops);
    lesson.number("wall." + name, bound.flops);
  }
}

// ---- mistakes, pictures ----

void mistakes(Lesson& lesson) {
  lesson.section("A mistake: a mean that is under way for a whole round");
  try {
    check_options({.inner = 5, .overlap = 5});
  } catch (const std::exception& error) {
    lesson.say("{}", error.what());
  }
}

void draw(Lesson& lesson) {
  std::ofstream("diloco.svg") << diloco_svg(stored_diloco_curves());
  std::ofstream("diloco_grid.svg") << diloco_grid_svg(stored_diloco_grid());
  std::ofstream("latency_wall.svg") << latency_wall_svg();
  lesson.say("drawn in diloco.svg, diloco_grid.svg and latency_wall.svg");
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(
      argc, argv, {"31", "DiLoCo", "workers that seldom talk"},
      [&](Lesson& lesson) {
        if (drawn != 0) draw(lesson);
        stale(lesson);
        hogwild(lesson);
        race(lesson);
        rounds(lesson);
        costs(lesson, sizes);
        rounding(lesson);
        slow_worker(lesson);
        measured(lesson);
        grid(lesson);
        wall(lesson);
        absent(lesson);
        mistakes(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 31");
      },
      {{"workers", "k", &sizes.workers, 2, 8},
       {"inner", "H, a multiple of 5", &sizes.inner, 5, 10000},
       {"millions", "of parameters of the described model", &sizes.megaparameters, 1, 100000},
       {"tokens", "of a worker's step", &sizes.tokens, 1, 1 << 24},
       {"draw", "1: write the page's pictures into this folder", &drawn, 0, 1}});
}
