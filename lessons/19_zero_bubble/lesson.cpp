// Lesson 19: weight gradients fill the bubble. Schedules drawn, run on the virtual clock, and against published rates.
#include <fstream>

#include "course/shared/lesson.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_picture.hpp"
#include "yotta/parallel/zero_bubble.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, microbatches = 8, draw = 0, own = 0;
  int p() const { return static_cast<int>(ranks); }
};

std::vector<PipelineSchedule> schedules(int p, int64_t m) {
  return {make_schedule(PipelineKind::one_f_one_b, p, m),
          zero_bubble_schedule(ZeroBubble::H1, p, m), zero_bubble_schedule(ZeroBubble::H2, p, m)};
}

void pictures(Lesson& lesson, const Sizes& sizes) {
  for (const PipelineSchedule& schedule : schedules(sizes.p(), sizes.microbatches)) {
    const PipelineTimeline timeline = simulate(schedule);
    lesson.section(
        fmt::format("{}: idle {:.1f}% of a step", schedule.name, 100 * bubble_rate(schedule, {})));
    lesson.show(picture(timeline, 1, console::colored()));
    if (sizes.draw == 0 || schedule.name == "1F1B") continue;
    const std::string file = schedule.name == "ZB-H1" ? "zero_bubble_h1.svg" : "zero_bubble_h2.svg";
    std::ofstream(file) << svg(timeline, caption(timeline));
    lesson.say("drawn in {}", file);
  }
}

// One step of the linear net on machine ideal: F, I and W take the same time in every stage.
Timed run_net(const PipelineSchedule& schedule) {
  const LinearNetConfig net{2 * schedule.ranks, 8};
  return run_on(ideal(), schedule.ranks, [&](Communicator& pp) {
    const std::vector<LayerPtr> stage = make_linear_net(net, 2 * pp.rank(), 2 * pp.rank() + 2);
    Pipeline pipeline(pp, {stage});
    const std::vector<PipelineMicrobatch> microbatches(
        static_cast<size_t>(schedule.microbatches),
        {Tensor::full({4, net.width}, 1), {4, net.width}, DType::f32, {}});
    pipeline.run(schedule, microbatches, [](size_t, const Tensor& y, Tensor& dy) {
      dy = y.clone();
      return 0.0;
    });
  });
}

void measure(Lesson& lesson, const Sizes& sizes) {
  const double unit = forward_flops({2, 8}, 4);  // seconds of F, I or W of a stage
  lesson.section(fmt::format("Run on {} ranks, {} microbatches, machine ideal; times in units of F",
                             sizes.ranks, sizes.microbatches));
  lesson.say("{:<8}{:>14}{:>12}{:>22}{:>26}", "", "rank 0 takes", "work", "idle by formula",
             "rank 0 holds at most");
  for (int k = 0; k <= 2; ++k) {
    const PipelineSchedule schedule =
        schedules(sizes.p(), sizes.microbatches)[static_cast<size_t>(k)];
    const Timed run = run_net(schedule);
    lesson.say("{:<8}{:>14.2f}{:>12}{:>22.2f}{:>26}", schedule.name, run.seconds(0) / unit,
               3 * sizes.microbatches, zero_bubble_idle(k, sizes.p(), {}),
               most_in_flight(schedule.by_rank[0]));
    lesson.number(schedule.name + ".rank0", run.seconds(0) / unit);
  }
}

// 1F1B with each B split into I and W, and every W at the end of its rank's list.
PipelineSchedule weights_last(PipelineSchedule schedule) {
  schedule.name = "W last";
  for (PipelineActions& actions : schedule.by_rank) {
    PipelineActions last;
    for (PipelineAction& action : actions) {
      if (action.op != PipelineOp::B) continue;
      action.op = PipelineOp::I;
      last.push_back({action.stage, PipelineOp::W, action.microbatch});
    }
    actions.insert(actions.end(), last.begin(), last.end());
  }
  return schedule;
}

void of_your_own(Lesson& lesson, const Sizes& sizes) {
  std::vector<PipelineSchedule> all = schedules(sizes.p(), sizes.microbatches);
  all.insert(all.begin() + 1, weights_last(all[0]));
  lesson.section("A schedule of your own: 1F1B with every W at the end; times in units of F");
  for (const PipelineSchedule& each : all)
    lesson.say("{:<8}{:>4.0f}", each.name, simulate(each).length);
}

void published(Lesson& lesson) {
  struct Row {
    int64_t m;
    PipelineCosts milliseconds;
    const char* printed;
  };
  lesson.section("Published: profiled times in, bubble rates out (8 stages)");
  lesson.say("{:>4}{:>28}{:>28}   {}", "m", "T_F  T_I  T_W  T_message", "1F1B  ZB-H1  ZB-H2",
             "printed");
  for (const Row& row : {Row{24, {18.522, 18.086, 9.337, .601}, ".2431  .1585  .1083"},
                         Row{64, {18.546, 18.097, 9.321, .762}, ".1240  .0674  .0444"},
                         Row{32, {29.802, 29.428, 19.530, .577}, ".1898  .1045  .0559"}}) {
    std::string rates;
    for (const PipelineSchedule& schedule : schedules(8, row.m))
      rates += fmt::format("  {:.4f}", bubble_rate(schedule, row.milliseconds));
    const PipelineCosts& t = row.milliseconds;
    lesson.say("{:>4}{:>28}{:>28}   {}", row.m,
               fmt::format("{:.1f} {:.1f} {:.1f} {:.1f}", t.forward, t.input, t.weight, t.message),
               rates, row.printed);
  }
}

void greedy(Lesson& lesson) {
  constexpr int p = 8;
  constexpr int64_t m = 24;
  const PipelineCosts measured{18.522, 18.086, 9.337, .601};
  lesson.section("Any limit of memory: a greedy schedule, 8 stages, 24 microbatches");
  lesson.say("{:>18}{:>22}{:>28}", "held at most", "idle, F = I = W", "bubble rate, profiled");
  for (const int64_t hold : {8, 9, 10, 12, 14, 15, 16, 20, 24}) {
    const double equal = bubble_rate(greedy_schedule(p, m, hold, {}), {});
    lesson.say("{:>18}{:>16.0f} units{:>28.4f}", hold,
               3 * static_cast<double>(m) * equal / (1 - equal),
               bubble_rate(greedy_schedule(p, m, hold, measured), measured));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv, {"19", "Zero bubble", "weight gradients fill the pipeline's idle time"},
      [&](Lesson& lesson) {
        pictures(lesson, sizes);
        measure(lesson, sizes);
        if (sizes.own != 0) of_your_own(lesson, sizes);
        published(lesson);
        greedy(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 19");
      },
      {{"ranks", "pipeline ranks, p", &sizes.ranks, 1, 8},
       {"microbatches", "microbatches, m", &sizes.microbatches, 1, 64},
       {"own", "1: also the time of a schedule of your own", &sizes.own, 0, 1},
       {"draw", "1: write zero_bubble_h1.svg and _h2.svg into this folder", &sizes.draw, 0, 1}});
}
