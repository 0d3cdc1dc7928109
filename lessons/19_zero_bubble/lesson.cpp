// Lesson 19: weight gradients fill the bubble. Schedules drawn, run on the virtual clock, and
// against published rates; then those that fold the model or feed it from both ends, and those that
// are searched for.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/parallel/pipeline_picture.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, microbatches = 8, stages = 8, draw = 0, own = 0;
  int p() const { return static_cast<int>(ranks); }
};

std::vector<PipelineSchedule> schedules(int p, int64_t m) {
  return {make_schedule(PipelineKind::one_f_one_b, p, m),
          zero_bubble_schedule(ZeroBubble::H1, p, m), zero_bubble_schedule(ZeroBubble::H2, p, m)};
}

void show(Lesson& lesson, const Sizes& sizes, const PipelineSchedule& schedule,
          const std::string& file) {
  const PipelineTimeline timeline = simulate(schedule);
  lesson.section(
      fmt::format("{}: idle {:.1f}% of a step", schedule.name, 100 * bubble_rate(schedule, {})));
  lesson.show(picture(timeline, 1, console::colored()));
  if (sizes.draw == 0 || file.empty()) return;
  std::ofstream(file) << svg(timeline, caption(timeline));
  lesson.say("drawn in {}", file);
}

void pictures(Lesson& lesson, const Sizes& sizes) {
  const char* const files[] = {"", "zero_bubble_h1.svg", "zero_bubble_h2.svg"};
  for (size_t k = 0; k <= 2; ++k)
    show(lesson, sizes, schedules(sizes.p(), sizes.microbatches)[k], files[k]);
}

// One step of the linear net on machine ideal: F, I and W take the same time in every stage.
Timed run_net(const PipelineSchedule& schedule) {
  const LinearNetConfig net{2 * schedule.stages, 8};
  return run_on(ideal(), schedule.ranks, [&](Communicator& pp) {
    std::vector<std::vector<LayerPtr>> chunks;
    for (int c = 0; c < schedule.chunks(); ++c) {
      const int stage = stage_on(schedule.placement, pp.rank(), c, schedule.ranks);
      chunks.push_back(make_linear_net(net, 2 * stage, 2 * stage + 2));
    }
    Pipeline pipeline(pp, {chunks.begin(), chunks.end()});
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
  lesson.say("{:>4}{:>28}{:>28}   {}", "m", "t_F  t_I  t_W  t_message", "1F1B  ZB-H1  ZB-H2",
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

// Rates of the one greedy rule, of the best of ten, and of the best order of all.
void searched(Lesson& lesson) {
  const PipelineCosts measured{18.522, 18.086, 9.337, .601};
  lesson.section("Searched: bubble rates with the profiled times, one rule, ten rules, all orders");
  lesson.say("{:>8}{:>14}{:>14}{:>14}{:>14}{:>14}", "stages", "microbatches", "held at most",
             "greedy", "searched", "best");
  for (const auto& [p, m, hold] :
       {std::tuple{4, 6, 3}, {4, 6, 4}, {4, 6, 5}, {4, 6, 6}, {8, 24, 8}, {8, 24, 15}, {8, 24, 24}})
    lesson.say(
        "{:>8}{:>14}{:>14}{:>14.4f}{:>14.4f}{:>14}", p, m, hold,
        bubble_rate(greedy_schedule(p, m, hold, measured), measured),
        bubble_rate(searched_schedule(p, m, hold, measured), measured),
        can_be_exact(p, m)
            ? fmt::format("{:.4f}", bubble_rate(best_schedule(p, m, hold, measured), measured))
            : "-");
}

void folded(Lesson& lesson, const Sizes& sizes) {
  const int p = sizes.p();
  const int64_t m = sizes.microbatches;
  show(lesson, sizes, zb_v_schedule(p, m), "zero_bubble_v.svg");
  show(lesson, sizes, interleaved_zb_schedule(p, m, 2), "");
  lesson.section("Folded and interleaved, two chunks per rank: idle in units of a chunk's F");
  lesson.say("{:<26}{:>12}{:>14}{:>26}", "", "F = I = W", "W = F / 2", "rank 0 holds, in chunks");
  for (const PipelineSchedule& each : {make_schedule(PipelineKind::interleaved, p, m, 2),
                                       interleaved_zb_schedule(p, m, 2), zb_v_schedule(p, m)}) {
    const auto idle = [&](const PipelineCosts& costs) {
      const double rate = bubble_rate(each, costs);
      return 2 * static_cast<double>(m) * (2 + costs.weight) * rate / (1 - rate);
    };
    lesson.say("{:<26}{:>12.1f}{:>14.1f}{:>26}", each.name, idle({}), idle({1, 1, 0.5}),
               most_in_flight(each.by_rank[0]));
  }
}

// DeepSeek's table: time in which a rank is idle, until the last one is done.
double idle(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  const PipelineTimeline timeline = simulate(schedule, costs);
  double most = 0;
  for (const std::vector<PipelineEvent>& events : timeline.by_rank) {
    double work = 0;
    for (const PipelineEvent& each : events) work += each.end - each.begin;
    most = std::max(most, timeline.length - work);
  }
  return most;
}

void dual(Lesson& lesson, const Sizes& sizes) {
  show(lesson, sizes, dual_pipe_schedule(4, 8), "dual_pipe.svg");
  show(lesson, sizes, dual_pipe_v_schedule(2, 4), "");
  const int p = static_cast<int>(sizes.stages);
  const int64_t m = 2 * p;
  const PipelineCosts together{1, 1, 1, 0, 2.5};
  const double unit = forward_flops({2, 8}, 4);
  const PipelineSchedule first = make_schedule(PipelineKind::one_f_one_b, p, m),
                         h1 = zero_bubble_schedule(ZeroBubble::H1, p, m),
                         both = dual_pipe_schedule(p, m), vee = dual_pipe_v_schedule(p / 2, p);
  lesson.section(fmt::format("{} stages of F = I = W = 1: idle by formula, simulated, run", p));
  lesson.say("{:<11}{:>6}{:>9}{:>11}{:>6}{:>16}{:>10}{:>9}{:>6}", "", "ranks", "formula",
             "simulated", "run", "with F&B = 2.5", "formula", "weights", "held");
  struct Row {
    const PipelineSchedule& schedule;
    double formula, formula_together;
  };
  for (const Row& row : {Row{first, zero_bubble_idle(0, p, {}), zero_bubble_idle(0, p, {})},
                         Row{h1, zero_bubble_idle(1, p, {}), zero_bubble_idle(1, p, {})},
                         Row{both, dual_pipe_idle(p, {}), dual_pipe_idle(p, together)},
                         Row{vee, dual_pipe_idle(p, {}), dual_pipe_idle(p, together)}}) {
    const PipelineSchedule& each = row.schedule;
    const double work = 3 * static_cast<double>(each.microbatches * each.stages) / each.ranks;
    lesson.say("{:<11}{:>6}{:>9.1f}{:>11.1f}{:>6.1f}{:>16.1f}{:>10.1f}{:>9}{:>6}", each.name,
               each.ranks, row.formula, idle(each, {}), run_net(each).seconds() / unit - work,
               idle(each, together), row.formula_together, each.chunks(),
               most_in_flight(each.by_rank[0]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(argc, argv,
                    {"19", "Zero bubble", "weight gradients fill the pipeline's idle time"},
                    [&](Lesson& lesson) {
                      pictures(lesson, sizes);
                      measure(lesson, sizes);
                      if (sizes.own != 0) of_your_own(lesson, sizes);
                      published(lesson);
                      greedy(lesson);
                      searched(lesson);
                      folded(lesson, sizes);
                      dual(lesson, sizes);
                      lesson.say("\nNext: write it yourself, ./yotta check 19");
                    },
                    {{"ranks", "pipeline ranks, p", &sizes.ranks, 1, 8},
                     {"microbatches", "microbatches, m", &sizes.microbatches, 1, 64},
                     {"stages", "stages of DualPipe's table, even", &sizes.stages, 2, 16},
                     {"own", "1: also the time of a schedule of your own", &sizes.own, 0, 1},
                     {"draw", "1: write the drawings into this folder", &sizes.draw, 0, 1}});
}
