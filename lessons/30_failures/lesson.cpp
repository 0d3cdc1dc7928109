// Lesson 30: how often machines fail, what that costs, how failures are found, and how training
// goes on.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "course/lesson/lesson_frame.hpp"
#include "course/pictures/failures_picture.hpp"
#include "course/pictures/survival_picture.hpp"
#include "course/training/training.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/resilience/failure_arithmetic.hpp"
#include "yotta/resilience/failure_detection.hpp"
#include "yotta/resilience/faults/watched_run.hpp"
#include "yotta/resilience/regroup.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t nodes = 10000, save = 10, down = 60, back = 4, only = 0, draw = 0, live = 0;
  std::string log, html;
};

std::string time_of(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 2 * seconds_a_day) return fmt::format("{:.1f} hours", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / seconds_a_day);
}

// ---- arithmetic ----

void rates(Lesson& lesson) {
  lesson.section("10 failures per 1000 node-days");
  for (const int nodes : {1, 100, 2048, 10000, 100000}) {
    const double mean = seconds_between_failures(nodes);
    lesson.say("{:>7} {}: one every {}", nodes, nodes == 1 ? "node " : "nodes", time_of(mean));
    lesson.number(fmt::format("mean.{}", nodes), mean);
  }
}

void intervals(Lesson& lesson, const Sizes& s) {
  const double mean = seconds_between_failures(static_cast<double>(s.nodes));
  lesson.section(
      fmt::format("{} nodes, a failure every {}, {} s down: the interval between snapshots",
                  s.nodes, time_of(mean), s.down));
  lesson.say("{:>9}{:>10}{:>9}{:>10}{:>9}{:>14}{:>9}", "snapshot", "Young", "goodput", "Daly",
             "goodput", "best of all", "goodput");
  for (const double save : {1.0, 10.0, 60.0, 300.0}) {
    const auto goodput = [&](double interval) {
      return expected_goodput({interval, save, static_cast<double>(s.down)}, mean);
    };
    double best = 1;
    for (double interval = 1; interval < 1e5; interval *= 1.002)
      if (goodput(interval) > goodput(best)) best = interval;
    const Intervals found = best_intervals(save, mean);
    lesson.say("{:>7} s{:>8.0f} s{:>8.1f}%{:>8.0f} s{:>8.1f}%{:>12.0f} s{:>8.1f}%", save,
               found.young, 100 * goodput(found.young), found.daly, 100 * goodput(found.daly), best,
               100 * goodput(best));
    lesson.number(fmt::format("young.{}", save), found.young);
  }
}

void product(Lesson& lesson, const Sizes& s) {
  const double mean = seconds_between_failures(static_cast<double>(s.nodes));
  const double save = static_cast<double>(s.save), down = static_cast<double>(s.down);
  lesson.section(fmt::format("Goodput of {} nodes is a product: snapshots of {} s, {} s down",
                             s.nodes, s.save, s.down));
  lesson.say("{:>10}{:>10}{:>10}{:>8}{:>10}{:>10}", "interval", "running", "working", "kept",
             "goodput", "expected");
  const double best = best_intervals(save, mean).daly;
  for (const double interval : {best / 4, best, 4 * best}) {
    const SavingRun run{interval, save, down};
    const SpentTime spent =
        simulate_run(run, std::vector<FailureSource>{{"node", mean}}, 3000 * mean, 1);
    const GoodputFactors f = factors(spent);
    lesson.say("{:>8.0f} s{:>9.1f}%{:>9.1f}%{:>7.1f}%{:>9.1f}%{:>9.1f}%", interval, 100 * f.running,
               100 * f.working, 100 * f.kept, 100 * spent.goodput(),
               100 * expected_goodput(run, mean));
  }
}

// The mean of 200 simulated runs: stops by source, and goodput.
double mean_of_runs(const SavingRun& run, std::span<const FailureSource> sources, double span,
                    std::vector<double>& stops) {
  double goodput = 0;
  stops.assign(sources.size(), 0);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SpentTime spent = simulate_run(run, sources, span, seed);
    goodput += spent.goodput() / 200;
    for (size_t i = 0; i < stops.size(); ++i) stops[i] += static_cast<double>(spent.stops[i]) / 200;
  }
  return goodput;
}

void llama3(Lesson& lesson) {
  lesson.section(
      "Llama 3 405B, 54 days on 16,384 H100: interruptions, one simulated run, 200 of them");
  const double span = llama3_days * seconds_a_day, mean = span / 466;
  const SavingRun run{best_intervals(10, mean).daly, 10, 600};
  const std::vector<FailureSource> sources = llama3_sources();
  const std::vector<int64_t> one = simulate_run(run, sources, span, 1).stops;
  std::vector<double> stops;
  const double goodput = mean_of_runs(run, sources, span, stops);
  lesson.say("{:<28}{:>6}{:>7}{:>8}", "", "paper", "a run", "mean");
  for (size_t i = 0; i < sources.size(); ++i)
    lesson.say("{:<28}{:>6}{:>7}{:>8.1f}", sources[i].name, llama3_interruptions[i].count, one[i],
               stops[i]);
  lesson.say("{:<28}{:>6}{:>7}{:>8.1f}", "all", 466,
             std::accumulate(one.begin(), one.end(), int64_t{0}),
             std::accumulate(stops.begin(), stops.end(), 0.0));
  lesson.say("one every {}, unexpected ones every {}: {:.2f} per 1000 node-days", time_of(mean),
             time_of(span / 419), 1000 * 419 / (llama3_nodes * llama3_days));
  lesson.say("with {} down, snapshots of 10 s, {} of work between them: {:.1f}% of the time trains",
             time_of(run.down), time_of(run.interval), 100 * goodput);
  lesson.say("to train for 90% of the time, an interruption may cost {} in all",
             time_of(0.1 * mean));
  lesson.number("llama3.goodput", goodput);
}

// ---- detection ----

void heartbeats(Lesson& lesson) {
  lesson.section(
      "100,000 heartbeats, one a second, then a crash: false alarms, and seconds to notice it");
  const std::pair<const char*, HeartbeatPath> paths[] = {
      {"quiet: 0.01 s of jitter", {0.01, 0, 0}},
      {"busy: 0.2 s of jitter", {0.2, 0, 0}},
      {"quiet, one pause of 5 s in 1000", {0.01, 0.001, 5}}};
  const std::pair<const char*, Patience> watchers[] = {
      {"time-out 1.5 s", time_out(1.5)}, {"time-out 8 s", time_out(8)}, {"phi 8", phi_accrual(8)}};
  std::string head = fmt::format("{:<32}", "");
  for (const auto& [name, patience] : watchers) head += fmt::format("{:>18}", name);
  lesson.say("{}", head);
  for (const auto& [path, of] : paths) {
    const std::vector<double> arrivals = heartbeat_arrivals(of, 100000, 7);
    std::string line = fmt::format("{:<32}", path);
    for (const auto& [name, patience] : watchers) {
      const Watched seen = watch(arrivals, patience);
      line += fmt::format("{:>9}{:>7.1f} s", seen.false_alarms, seen.seconds_to_notice);
      lesson.number(fmt::format("alarms.{}.{}", path, name),
                    static_cast<double>(seen.false_alarms));
    }
    lesson.say("{}", line);
  }
}

using Entered = std::array<std::atomic<int64_t>, 4>;

// Rank 2 does something else, while the others come to their fourth collective.
void wait_for_others(const Entered& entered) {
  while (entered[0] < 4 || entered[1] < 4 || entered[3] < 4) std::this_thread::yield();
}

// Four thread ranks; rank 2 stays away from the fourth all_reduce.
void hangs(Lesson& lesson) {
  lesson.section("A hang on four thread ranks: who has entered how many collectives");
  Entered entered{};
  try {
    run_ranks(4, [&](Communicator& world) {
      const auto rank = static_cast<size_t>(world.rank());
      for (int step = 0; step < 5; ++step) {
        if (rank == 2 && step == 3) return wait_for_others(entered);
        ++entered[rank];
        std::vector<float> x(4);
        world.all_reduce(x);
      }
    });
  } catch (const Deadlock&) {
    std::vector<RankState> ranks;
    for (const auto& each : entered) ranks.push_back({true, each});
    const std::vector<Health> health = diagnose_hang(ranks);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      lesson.say("rank {}: {} collectives, {}", rank, ranks[rank].entered, name(health[rank]));
  }
}

void stragglers(Lesson& lesson) {
  lesson.section(
      "8 ranks, jitter 10%, ranks 2 and 5 slow: how often each was last, and its slowness");
  const Stragglers slow{.jitter = 0.1, .slow_ranks = {{2, 1.3}, {5, 1.25}}};
  const Timed run = run_on(switched(ideal_chip(1), 8), 8,
                           [](Communicator& world) {
                             for (int step = 0; step < 50; ++step) {
                               std::vector<float> x(8);
                               charge({"work", DType::f32, 100, 0, 0});
                               world.all_reduce(x);
                             }
                           },
                           {.stragglers = slow});
  const Arrivals arrivals = arrivals_of(run.trace);
  std::vector<int> last(8);
  for (const std::vector<double>& each : arrivals)
    ++last[static_cast<size_t>(std::max_element(each.begin(), each.end()) - each.begin())];
  const std::vector<double> found = slowness(arrivals);
  for (size_t rank = 0; rank < 8; ++rank)
    lesson.say("rank {}: last {:>2} times, {:.2f} times the median's work{}", rank, last[rank],
               found[rank], found[rank] > 1.1 ? "   straggler" : "");
}

void flips(Lesson& lesson) {
  lesson.section(
      "One bit flipped on rank 1 of 3, in step 4 of 8: who finds it, and what it does to the loss");
  const WatchedRun clean = train_watched({});
  lesson.say("{:<28}{:<14}{:<14}{:<14}{:<14}{:>9}", "where", "bit", "checksum", "norm", "replay",
             "loss");
  for (int place = 0; place < flip_places; ++place)
    for (const int bit : flip_bits) {
      const Flip flip{static_cast<FlipPlace>(place), bit, 1, 4};
      const WatchedRun run = train_watched({}, flip);
      const double change = run.losses.back() - clean.losses.back();
      lesson.say("{:<28}{:<14}{:<14}{:<14}{:<14}{:>9}", name(flip.place), name_of_bit(bit),
                 in_words(run, Detector::checksum, flip), in_words(run, Detector::norm, flip),
                 in_words(run, Detector::replay, flip),
                 !std::isfinite(change)    ? "NaN"
                 : std::abs(change) < 1e-4 ? "+-0.000"
                                           : fmt::format("{:+.3f}", change));
    }
  const int64_t steps = WatchedPlan().steps;
  lesson.say(
      "cost a step: checksum {} bytes read, {} sent; norm nothing that clipping does not need; "
      "replay {} gradients in place of 1, {} bytes sent",
      clean.bytes_read, clean.checksum_bytes / steps, clean.gradients / steps,
      clean.replay_bytes / steps);
}

// ---- recovery ----

// A folder that is gone when the lesson ends.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("yotta_30_{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string write(const char* name, const std::string& text) const {
    const std::string file = (path_ / name).string();
    write_file(file, text);
    return file;
  }

 private:
  std::filesystem::path path_;
};

TrainingPlan training_plan(const std::string& text) {
  TrainingPlan plan;
  plan.model = gpt2_config(2, 16, 2, 16, 256);
  plan.ranks = 4, plan.steps = 20, plan.batch = 8, plan.warmup = 2;
  plan.text = text, plan.measure_seconds = 0;
  return plan;
}

TrainingFigures trained(const TrainingPlan& plan) {
  return run_training(plan, [](const StepFigures&) {});
}

// A row: the run that ended so, beside the one without faults.
void say_recovery(Lesson& lesson, Recovery recovery, const TrainingFigures& run,
                  const TrainingFigures& clean) {
  double difference = 0;
  for (size_t i = 0; i < run.loss.size(); ++i)
    difference = std::max(difference, std::abs(run.loss[i] - clean.loss[i]));
  lesson.say("{:<14}{:>12.4f}{:>12}{:>14}{:>20}{:>11.4f}", name(recovery), run.loss.back(),
             difference == 0     ? "0"
             : difference < 1e-5 ? "below 1e-5"
                                 : fmt::format("{:.4f}", difference),
             fmt::format("step {}", run.epochs[1].step), run.dropped_sequences,
             run.validation_loss);
  lesson.number(fmt::format("difference.{}", name(recovery)), difference);
}

std::string text_in(const Folder& folder) {
  std::string words;
  for (int i = 0; i < 200; ++i) words += fmt::format("rank {} is gone, and {} go on. ", i % 8, i);
  return folder.write("text.txt", words);
}
std::string faults_in(const Folder& folder, const Sizes& s) {
  return folder.write(
      "faults.json",
      fmt::format(R"({{"faults": [{{"rank": 1, "step": 6, "phase": "backward", "back": {}}}]}})",
                  s.back));
}

void recovery(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format(
      "Rank 1 of 4 dies in step 6 and stays away for {} steps: 20 steps of training", s.back));
  const Folder folder;
  const std::string text = text_in(folder), faults = faults_in(folder, s);
  const TrainingFigures clean = trained(training_plan(text));
  lesson.say("{:<14}{:>12}{:>12}{:>14}{:>20}{:>11}", "", "loss at 20", "difference", "goes on from",
             "sequences dropped", "validation");
  lesson.say("{:<14}{:>12.4f}{:>46}{:>11.4f}", "no faults", clean.loss.back(), "",
             clean.validation_loss);
  for (const Recovery each : {Recovery::restart, Recovery::replay, Recovery::drop}) {
    TrainingPlan plan = training_plan(text);
    plan.tolerance = Tolerance{each, 1, each == Recovery::restart ? 4 : 1, "", faults};
    say_recovery(lesson, each, trained(plan), clean);
  }
}

void who_takes_part(Lesson& lesson) {
  lesson.section("4 replicas of 2 ranks, quorum 2: who takes part in the next epoch");
  const Places places{4, 2};
  const std::vector<std::vector<int>> losses = {{}, {3}, {3, 6}, {0, 3, 6}};
  for (const Recovery each : {Recovery::restart, Recovery::drop})
    for (const std::vector<int>& lost : losses) {
      std::vector<bool> ready(8, true);
      for (const int place : lost) ready[static_cast<size_t>(place)] = false;
      const std::vector<int> epoch = places_of_epoch(each, places, ready, 2);
      lesson.say("{:<8} without {:<10} {}", name(each), fmt::format("{}", fmt::join(lost, " ")),
                 epoch.empty() ? "all wait" : fmt::format("{}", fmt::join(epoch, " ")));
    }
}

// What a step takes when ranks are dead: rerouted, and without the replicas that miss a rank.
void rerouted(Lesson& lesson) {
  const PipelineReplicas job{4, 4, 8};
  lesson.section(
      "Rerouted: 4 replicas of 4 stages, 8 microbatches each; times in F + B of one microbatch");
  lesson.say("{:<34}{:>8}{:>9}{:>9}{:>12}", "dead (replica.stage)", "load", "formula", "rerouted",
             "replay");
  const std::pair<const char*, std::vector<StageOfReplica>> losses[] = {
      {"nobody", {}},
      {"0.0", {{0, 0}}},
      {"0.1", {{0, 1}}},
      {"0.3", {{0, 3}}},
      {"0.1 and 1.2", {{0, 1}, {1, 2}}},
      {"0.1 and 1.1", {{0, 1}, {1, 1}}},
      {"0.0, 1.1, 2.2 and 3.3", {{0, 0}, {1, 1}, {2, 2}, {3, 3}}}};
  for (const auto& [words, dead] : losses) {
    const ReroutedPipeline made = reroute(job, dead);
    size_t most = 0;
    for (const PipelineActions& each : made.schedule.by_rank)
      most = std::max(most, each.size() / 2);
    std::set<int> lost;
    for (const StageOfReplica& each : dead) lost.insert(each.replica);
    const auto left = job.replicas - static_cast<int>(lost.size());
    const int64_t all = job.replicas * job.m;
    lesson.say("{:<34}{:>8}{:>9.1f}{:>9.1f}{:>12}", words, most, rerouted_length(job, dead) / 3,
               simulate(made.schedule).length / 3,
               left > 0
                   ? fmt::format("{:.1f}", static_cast<double>((all + left - 1) / left + job.p - 1))
                   : "all wait");
    lesson.number(fmt::format("rerouted.{}", words), simulate(made.schedule).length / 3);
  }
}

// The same fault in a job of two pipelines: who works meanwhile.
void rerouted_run(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format(
      "Rank 1, a last stage of 2 pipelines of 2 stages, dies in step 6: {} steps without it",
      s.back));
  const Folder folder;
  TrainingPlan plan = training_plan(text_in(folder));
  plan.layout = MeshShape{.pp = 2, .dp_replicate = 2}, plan.microbatches = 2;
  const TrainingFigures clean = trained(plan);
  lesson.say("{:<10}{:>22}{:>14}{:>16}", "", "work meanwhile", "difference", "validation");
  lesson.say("{:<10}{:>52.4f}", "no faults", clean.validation_loss);
  for (const Recovery each : {Recovery::replay, Recovery::reroute}) {
    plan.tolerance = Tolerance{each, 1, 1, "", faults_in(folder, s)};
    const TrainingFigures run = trained(plan);
    double difference = 0;
    for (size_t i = 0; i < run.loss.size(); ++i)
      difference = std::max(difference, std::abs(run.loss[i] - clean.loss[i]));
    lesson.say("{:<10}{:>22}{:>14}{:>16.4f}", name(each),
               fmt::format("{} of 4 ranks", run.epochs[1].ranks),
               difference < 1e-5 ? "below 1e-5" : fmt::format("{:.4f}", difference),
               run.validation_loss);
    lesson.number(fmt::format("rerouted.difference.{}", name(each)), difference);
  }
}

Survival recorded() {
  const std::string file = std::string(YOTTA_SOURCE_DIR) + "/lessons/30_failures/run.json";
  return read_survival(read_file(file), file);
}

void picture(Lesson& lesson) {
  lesson.section("A recorded run of train: three ranks die, and come back");
  const Survival run = recorded();
  lesson.show(survival_text(run, run.columns.size()));
}

// ---- pictures ----

void show_log(Lesson& lesson, const Sizes& s) {
  const Survival whole = read_survival(read_file(s.log), s.log), run = shortened(whole, 70);
  if (!s.html.empty()) {
    write_file(s.html, survival_html(whole));
    return lesson.say("drawn in {}", s.html);
  }
  for (size_t columns = s.live != 0 ? 1 : run.columns.size(); columns <= run.columns.size();
       ++columns) {
    if (s.live != 0) lesson.show("\x1b[H\x1b[2J");
    lesson.show(survival_text(run, columns));
    std::fflush(stdout);
    if (s.live != 0) ::usleep(150000);
  }
}

void draw(Lesson& lesson) {
  write_file("failure_intervals.svg", intervals_svg());
  write_file("failure_flips.svg", flips_svg());
  write_file("failure_reroute.svg", reroute_svg());
  write_file("failure_run.svg", survival_svg(recorded()));
  lesson.say(
      "drawn in failure_intervals.svg, failure_flips.svg, failure_reroute.svg and failure_run.svg");
}

void all(Lesson& lesson, const Sizes& s) {
  if (!s.log.empty()) return show_log(lesson, s);
  if (s.draw != 0) return draw(lesson);
  const auto part = [&](int number) { return s.only == 0 || s.only == number; };
  if (s.only == 0) rates(lesson);
  if (part(1)) intervals(lesson, s), product(lesson, s);
  if (part(2)) llama3(lesson);
  if (part(3)) heartbeats(lesson), hangs(lesson), stragglers(lesson);
  if (part(4)) flips(lesson);
  if (part(5)) recovery(lesson, s);
  if (s.only == 0) who_takes_part(lesson);
  if (part(6)) rerouted(lesson), rerouted_run(lesson, s);
  if (s.only == 0) picture(lesson);
  lesson.say("\nNext: write it yourself, ./yotta check 30");
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  LessonFrame frame;
  frame.add_options = [&](Options& to) {
    to.add("--log", sizes.log, "draw a run that train --json wrote to this file", called("FILE"));
    to.add("--html", sizes.html, "with --log: as a page that plays it", called("FILE"));
  };
  frame.begin = frame.end = [] {};
  return run_lesson_within(
      argc, argv,
      {"30", "When machines fail", "what failures cost, how they are found, how training goes on"},
      frame, [&](Lesson& lesson) { all(lesson, sizes); },
      {{"nodes", "of the machine", &sizes.nodes, 1, 10000000},
       {"save", "seconds of a snapshot", &sizes.save, 1, 100000},
       {"down", "seconds from a failure to the first step after it", &sizes.down, 0, 100000},
       {"back", "steps for which the dead rank stays away", &sizes.back, 0, 13},
       {"only", "1 intervals, 2 Llama 3, 3 detection, 4 flips, 5 recovery, 6 rerouted; 0: all",
        &sizes.only, 0, 6},
       {"draw", "1: write the page's pictures into this folder", &sizes.draw, 0, 1},
       {"live", "1, with --log: play it step by step", &sizes.live, 0, 1}});
}
