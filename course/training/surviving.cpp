#include "course/training/surviving.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "course/options/console.hpp"
#include "course/training/training.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/comm/sockets/job_line.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {

// Do the replicas have the same state, so that one can take another's place?
bool has_replicas(const TrainingPlan& plan) {
  return layout_of(plan).dp_replicate > 1 && plan.zero != 1 && plan.zero != 2;
}

FaultPlan faults_of(const TrainingPlan& plan) {
  const std::string& file = plan.tolerance->faults;
  if (file.empty()) return {};
  return parse_faults(read_file(file), file, plan.ranks, plan.steps);
}

}  // namespace

Recovery usual_recovery(const TrainingPlan& plan) {
  return has_replicas(plan) ? Recovery::replay : Recovery::restart;
}

namespace {

// Is there what the recovery goes on with?
void expect_recovery(const TrainingPlan& plan) {
  const Tolerance& it = *plan.tolerance;
  const MeshShape layout = layout_of(plan);
  if (it.recovery == Recovery::restart) return;
  if (!has_replicas(plan))
    fail(Where::current(),
         "--recover {} goes on with the replicas that are left, and {} has {}: take --recover "
         "restart{}",
         name(it.recovery), describe(layout),
         plan.zero > 0
             ? fmt::format("none that hold the same: --zero {} cuts their state", plan.zero)
             : "one",
         plan.zero > 0 ? ", or leave --zero out" : ", or dp=2 as well");
  if (it.missing >= layout.dp_replicate)
    fail(Where::current(),
         "--tolerate {}: {} replicas cannot all be missing while others go on. Nearest: {}",
         it.missing, layout.dp_replicate, layout.dp_replicate - 1);
  if (it.snapshot_every != 1)
    fail(Where::current(), "--snapshot-every {} is for --recover restart: {} needs every step",
         it.snapshot_every, name(it.recovery));
}

// Are there only replicas of a pipeline, run as resilience/rerouted_model.hpp can?
void expect_reroute(const TrainingPlan& plan) {
  if (plan.tolerance->recovery != Recovery::reroute) return;
  const MeshShape layout = layout_of(plan);
  if (layout.pp == 1)
    fail(Where::current(),
         "--recover reroute sends the microbatches of a lost pipeline stage to another replica's, "
         "and {} has no pipeline: take --recover replay, or pp=2 as well",
         describe(layout));
  const std::string other = layout.ranks() != layout.pp * layout.dp_replicate
                                ? "the other axes of " + describe(layout)
                            : plan.schedule != "1f1b"        ? "--schedule"
                            : plan.chunks > 1                ? "--chunks"
                            : plan.loss_tokens > 0           ? "--loss-tokens"
                            : plan.model.mixture.experts > 0 ? "--experts"
                                                             : "";
  if (!other.empty())
    fail(Where::current(),
         "--recover reroute runs 1F1B with a stage on each rank, on the axes pp and dp, and does "
         "not go together with {}: leave that out, or take --recover replay",
         other);
  if (plan.batch / layout.dp_replicate < plan.microbatches)
    fail(Where::current(),
         "--recover reroute: {} sequences on {} replicas are too few for --microbatches {}, of "
         "which all replicas need as many. Nearest: --batch {}, or --microbatches {}",
         plan.batch, layout.dp_replicate, plan.microbatches,
         plan.microbatches * layout.dp_replicate,
         std::max<int64_t>(1, plan.batch / layout.dp_replicate));
}

void expect_no_other(const TrainingPlan& plan) {
  if (const char* const other = plan.workers > 0        ? "--diloco"
                                : plan.stops_on_signals ? "--requeue"
                                : plan.ema > 0          ? "--ema"
                                : plan.load_ahead > 0   ? "--load-ahead"
                                                        : nullptr)
    fail(Where::current(),
         "--tolerate and --faults do not go together with {}: leave one of them out", other);
  if (plan.device != Device::cpu)
    fail(Where::current(),
         "--tolerate and --faults are for models on the CPU, and this one is on {}",
         name(plan.device));
  if (plan.ranks > 64)
    fail(Where::current(), "--tolerate and --faults are for 64 ranks at most, not {}", plan.ranks);
}

}  // namespace

void expect_tolerance(const TrainingPlan& plan) {
  if (!plan.tolerance) return;
  expect_recovery(plan);
  expect_reroute(plan);
  expect_no_other(plan);
  if (const std::string& folder = plan.tolerance->snapshots; !folder.empty()) {
    std::error_code error;  // what stands in the way is named next
    std::filesystem::create_directories(folder, error);
    expect_writable(fmt::format("{}/snapshot_{}", folder, getpid()));
  }
  static_cast<void>(faults_of(plan));
}

Places places_of(const TrainingPlan& plan) {
  const MeshShape layout = layout_of(plan);
  const int replicas = has_replicas(plan) ? layout.dp_replicate : 1;
  return {replicas, static_cast<int>(layout.ranks()) / replicas};
}

EpochRule rule_of(const TrainingPlan& plan) {
  const Recovery recovery = plan.tolerance->recovery;
  const Places places = places_of(plan);
  const int quorum = std::max(1, places.replicas - plan.tolerance->missing);
  return [=](const std::vector<bool>& ready) {
    return places_of_epoch(recovery, places, ready, quorum);
  };
}

std::string wait_words(const TrainingPlan& plan, const std::vector<int>& missing) {
  const Places places = places_of(plan);
  const int quorum = std::max(1, places.replicas - plan.tolerance->missing);
  const std::string of = fmt::format("{} of {}", quorum, places.replicas);
  std::string needed = of + " replicas must be whole";
  if (plan.tolerance->recovery == Recovery::restart)
    needed = fmt::format("all {} places must have one", places.count());
  else if (plan.tolerance->recovery == Recovery::reroute)
    needed = of + " ranks of each stage must be there";
  else if (places.parts == 1)
    needed = of + " places must have one";
  return fmt::format("all wait: place{} {} {} no rank that is ready. To go on, {}",
                     missing.size() == 1 ? "" : "s", fmt::join(missing, " "),
                     missing.size() == 1 ? "has" : "have", needed);
}

TrainingPlan plan_of_epoch(const TrainingPlan& plan, const Epoch& epoch) {
  TrainingPlan now = plan;
  MeshShape layout = layout_of(plan);
  now.ranks = static_cast<int>(epoch.places.size());
  const bool is_box = plan.tolerance->recovery != Recovery::reroute;
  if (has_replicas(plan) && is_box) layout.dp_replicate = now.ranks / places_of(plan).parts;
  now.layout = layout;
  return now;
}

ShareOfStep share_of_epoch(const TrainingPlan& plan, const Epoch& epoch, int index) {
  if (plan.tolerance->recovery == Recovery::reroute)
    return share_of_step(Recovery::reroute, plan.batch, 1, 0, 1, {}, 0);
  const Places places = places_of(plan);
  const auto data_ranks = static_cast<int>(layout_of(plan).data_ranks());
  const int ranks = data_ranks / places.replicas;  // of a replica
  std::vector<int> living;
  for (size_t i = 0; i < epoch.places.size(); i += static_cast<size_t>(places.parts))
    living.push_back(places.replica(epoch.places[i]));
  return share_of_step(plan.tolerance->recovery, plan.batch, ranks, index % ranks, places.replicas,
                       living, index / ranks);
}

namespace {

// What a process leaves when a fault kills it: its replacement does not have this fault again. One
// that is killed from outside leaves none.
std::string fault_mark(int place, int fault) { return fmt::format("fault_{}_{}", place, fault); }
int happened_in_job(int place) {
  int count = 0;
  while (JobLine::find()->note(fault_mark(place, count))) ++count;
  return count;
}

}  // namespace

SurvivorOptions survivor_options(const TrainingPlan& plan, int64_t first, uint64_t run) {
  const Tolerance& it = *plan.tolerance;
  const Places places = places_of(plan);
  return {it.recovery,
          places,
          std::max(1, places.replicas - it.missing),
          it.snapshot_every,
          it.snapshots,
          run,
          first,
          faults_of(plan),
          JobLine::is_member() ? happened_in_job : nullptr};
}

std::function<void()> way_to_die(int place) {
  if (epoch_host() == nullptr && rank_host() == nullptr) return [] { throw RankKilled(); };
  return [place] {
    if (JobLine::is_member())
      JobLine::find()->leave_note(fault_mark(place, happened_in_job(place)), "");
    std::raise(SIGKILL);
  };
}

namespace {
std::string count_of(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}
}  // namespace

std::string describe_losses(const std::vector<EpochRecord>& epochs, int64_t dropped,
                            const std::vector<Death>& deaths) {
  std::string text = fmt::format("epochs: {}; lost: ", epochs.empty() ? 0 : epochs.back().epoch);
  int64_t redone = 0;
  double seconds = 0;
  for (const EpochRecord& each : epochs) {
    redone += each.redone;
    seconds = std::max(seconds, each.seconds);
  }
  text += fmt::format("{} done again, {} dropped", count_of(redone, "step"),
                      count_of(dropped, "sequence"));
  if (seconds > 0) text += fmt::format("; {:.2f} s to go on at most", seconds);
  text += "\n";
  if (!deaths.empty()) text += fmt::format("killed in this run: {}\n", describe(deaths));
  int64_t number = 1;
  for (const EpochRecord& each : epochs) {
    for (; number < each.epoch; ++number)
      text += fmt::format("  epoch {}: ended before its first step\n", number);
    ++number;
    text += fmt::format("  epoch {}: {}, from step {}, state from {}{}{}\n", each.epoch,
                        count_of(each.ranks, "rank"), each.step, name(each.level),
                        each.moved > 0 ? fmt::format(" ({})", count_of(each.moved, "rank")) : "",
                        each.seconds > 0 ? fmt::format(", after {:.2f} s", each.seconds) : "");
  }
  return text;
}

}  // namespace yotta
