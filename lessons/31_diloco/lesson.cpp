// Lesson 31: workers that seldom talk. What goes wrong when nobody waits; DiLoCo and its family on a machine of far
// cities; what rounding and absence cost; and the wall that latency builds.
#include <fstream>

#include "course/shared/diloco_picture.hpp"
#include "course/shared/diloco_runs.hpp"
#include "course/shared/lesson.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/async_diloco.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/diloco.hpp"
#include "yotta/plan/latency_wall.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t workers = 4, inner = 10, steps = 20, only = 0, draw = 0;
};

const std::string results = std::string(YOTTA_SOURCE_DIR) + "/bench/results/";

// A text that never changes, so that the numbers in the lesson do not either.
const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all += "Workers train alone for a while, and then they average what they have learned. ";
  return all;
}();

// ---- nobody waits -----------------------------------------------------------------------------------------

// |w| after 200 gradients down w^2 / 2 from 1, from k workers of one speed.
double descended(int k, double rate) {
  const std::vector<double> seconds(static_cast<size_t>(k), 1);
  const auto gradient = [](int, int64_t, const std::vector<double>& w) { return w; };
  return std::abs(play_async(async_arrivals(seconds, 200), {1.0}, rate, gradient)[0]);
}

void nobody_waits(Lesson& lesson) {
  lesson.section("Asynchronous SGD: k workers, gradients k - 1 steps old, w from 1 in 200 steps");
  lesson.say("{:>4}{:>15}{:>12}{:>12}{:>12}{:>12}", "k", "largest rate", "rate 0.05", "rate 0.2",
             "rate 0.5", "rate 1");
  for (const int k : {1, 2, 4, 8}) {
    std::string line = fmt::format("{:>4}{:>15.3f}", k, largest_stale_rate(1, k - 1));
    for (const double rate : {0.05, 0.2, 0.5, 1.0}) {
      const double w = descended(k, rate);
      line += fmt::format("{:>12}", w > 1e6 ? "diverges" : fmt::format("{:.1e}", w));
    }
    lesson.say("{}", line);
  }
}

void hogwild(Lesson& lesson) {
  lesson.section("Hogwild: 8 threads, 1000 weights, writes that undo what others wrote");
  lesson.say("{:>24}{:>10}{:>10}{:>8}", "weights of an example", "writes", "lost", "share");
  for (const int touched : {1, 3, 10, 30, 100}) {
    const HogwildProblem problem{.touched = touched};
    const HogwildRun run = play_hogwild(problem, 8, 4000, 0.1 / touched, HogwildWrites::overwrite);
    lesson.say("{:>24}{:>10}{:>10}{:>7.1f}%", touched, run.writes, run.lost,
               100 * static_cast<double>(run.lost) / static_cast<double>(run.writes));
  }
}

// ---- on the cities ----------------------------------------------------------------------------------------

void on_cities(Lesson& lesson, const Sizes& sizes) {
  DilocoRun run;
  run.workers = static_cast<int>(sizes.workers);
  run.batch = 2 * sizes.workers;
  run.steps = sizes.steps;
  run.model = gpt2_config(2, 32, 2, 32, 256);
  lesson.section(fmt::format("{} steps of a transformer on {} cities: 1 Gbit/s, 50 ms", sizes.steps,
                             sizes.workers));
  lesson.say("{:<34}{:>10}{:>14}{:>10}{:>12}", "", "loss", "kB sent", "seconds", "times DDP");
  const auto H = sizes.inner;
  const std::vector<DilocoWay> ways = {
      {"DDP", DilocoWay::ddp, {}},
      {fmt::format("DiLoCo, H = {}", H), DilocoWay::diloco, {.inner = H}},
      {"  with 8 bits", DilocoWay::diloco, {.inner = H, .bits = 8}},
      {"  with 4 bits", DilocoWay::diloco, {.inner = H, .bits = 4}},
      {"  in 2 fragments, 3 steps late",
       DilocoWay::diloco,
       {.inner = H, .fragments = 2, .overlap = 3, .keep = 0.5}},
      {fmt::format("gossip, H = {}", H), DilocoWay::gossip, {.inner = H}},
      {fmt::format("asynchronous, H = {}", H), DilocoWay::async, {.inner = H}}};
  double ddp = 0;
  for (const DilocoWay& way : ways) {
    const DilocoCurve curve = run_diloco(way, run, text);
    if (way.kind == DilocoWay::ddp) ddp = curve.seconds.back();
    lesson.say("{:<34}{:>10.3f}{:>14.1f}{:>10.2f}{:>12.1f}", way.name, curve.loss.back(),
               curve.bytes.back() / 1e3, curve.seconds.back(), ddp / curve.seconds.back());
    lesson.numbers(way.name, {curve.loss.back(), curve.bytes.back(), curve.seconds.back()});
  }
}

// ---- what rounding loses ----------------------------------------------------------------------------------

// What 20 rounds of two workers add up to for a number of 0.03 beside a 1, on worker 0.
double summed(bool feedback, int bits) {
  double sum = 0;
  run_ranks(2, [&](Communicator& world) {
    Lost lost;
    if (feedback) lost = {Tensor::zeros({4}), Tensor::zeros({2})};
    for (int round = 0; round < 20; ++round) {
      Tensor x = Tensor::from<float>({1, 0.03f, 1, 0.03f}, {4});
      world.collective("mean", [&](Channel& c) { quantised_mean(c, x, 1, bits, lost); });
      if (world.rank() == 0) sum += x.item({1});
    }
  });
  return sum;
}

void rounding(Lesson& lesson) {
  lesson.section("20 rounds of an outer gradient of 0.03 beside one of 1: what has arrived of 0.6");
  for (const int bits : {8, 4})
    lesson.say("{} bits: {:.3f} without feedback, {:.3f} with it", bits, summed(false, bits),
               summed(true, bits));
}

// ---- a slow worker ----------------------------------------------------------------------------------------

void slow_worker(Lesson& lesson) {
  lesson.section("4 workers, one of them 3 times as slow: 24 rounds of 50 steps of a second");
  const std::vector<double> seconds = {50, 50, 50, 150};
  const auto arrivals = async_arrivals(seconds, 24);
  std::vector<int> rounds(4);
  int64_t oldest = 0;
  for (const AsyncArrival& each : arrivals) {
    ++rounds[static_cast<size_t>(each.worker)];
    oldest = std::max(oldest, each.staleness());
  }
  lesson.say("together:     {:>5.0f} s, 6 rounds of each; all wait for the slow one", 6 * 150.0);
  lesson.say("nobody waits: {:>5.0f} s, rounds {} {} {} {}; the oldest outer gradient is {} old",
             arrivals.back().end, rounds[0], rounds[1], rounds[2], rounds[3], oldest);
  const std::vector<double> steps = {1, 1, 1, 3};
  const auto inner = async_inner_steps(steps, 50);
  lesson.say("fewer steps:  {} {} {} {} inner steps, so that all rounds take 50 s", inner[0],
             inner[1], inner[2], inner[3]);
}

// ---- measured, and the wall -------------------------------------------------------------------------------

void grid(Lesson& lesson) {
  lesson.section("Measured (bench/results/diloco_grid.json): loss after 400 steps, 3 seeds");
  lesson.show(diloco_grid_text(read_file(results + "diloco_grid.json")));
}

void wall(Lesson& lesson) {
  lesson.section("The latency wall: what 90 days allow, with 16M tokens in a batch");
  lesson.say("{:<34}{:>12}{:>12}{:>10}{:>18}", "", "s in a step", "tokens", "FLOPs",
             "if B grows: FLOPs");
  const double days = 90 * 86400.0, between = ring_latency(4, 0.05);
  struct Row {
    const char* name;
    StepLatency latency;
  };
  for (const Row& row : {Row{"one hall, 10 ms", {0.01}},
                         {"4 cities, DDP", {0.01, between, 1}},
                         {"4 cities, DiLoCo, H = 50", {0.01, between, 50}},
                         {"4 cities, DiLoCo, H = 500", {0.01, between, 500}}}) {
    const double tokens = largest_tokens(days, row.latency, {});
    const double growing = largest_tokens(days, row.latency, {.growth = 0.5});
    lesson.say("{:<34}{:>12.4f}{:>12.1e}{:>10.1e}{:>18.1e}", row.name, row.latency.seconds(),
               tokens, run_flops(tokens), run_flops(growing));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"31", "DiLoCo", "workers that seldom talk: bytes, seconds, losses, and the latency wall"},
      [&](Lesson& lesson) {
        if (sizes.only == 0) {
          nobody_waits(lesson);
          hogwild(lesson);
        }
        on_cities(lesson, sizes);
        if (sizes.only == 0) {
          rounding(lesson);
          slow_worker(lesson);
          grid(lesson);
          wall(lesson);
        }
        if (sizes.draw == 1) {
          std::ofstream("diloco.svg") << diloco_svg(read_file(results + "diloco_curves.json"));
          std::ofstream("latency_wall.svg") << latency_wall_svg();
        }
        lesson.say("\nNext: write it yourself, ./yotta check 31");
      },
      {{"workers", "k, a city each", &sizes.workers, 1, 16},
       {"inner", "H: steps between two means", &sizes.inner, 4, 1000},
       {"steps", "of the transformer", &sizes.steps, 1, 10000},
       {"only", "1: the cities alone", &sizes.only, 0, 1},
       {"draw", "1: write diloco.svg and latency_wall.svg into this folder", &sizes.draw, 0, 1}});
}
