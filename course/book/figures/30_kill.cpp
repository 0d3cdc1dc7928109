#include <algorithm>

#include "course/book/figures/figure.hpp"
#include "yotta/resilience/regroup.hpp"
#include "yotta/resilience/rerouted_pipeline.hpp"

namespace book {
namespace {

using yotta::Recovery;

constexpr int replicas = 4, stages = 4, microbatches = 8, batch = replicas * microbatches;
constexpr yotta::Places places{replicas, stages};

// Who works on, by place: microbatches of a step, 0 for who does not; and what a step takes.
struct Epoch {
  std::vector<int> living;
  std::vector<double> load = std::vector<double>(size_t{replicas * stages});
  double sequences = 0, seconds = 0;
};

void reroute_dead(Epoch& epoch, const std::vector<yotta::StageOfReplica>& dead) {
  const yotta::ReroutedPipeline made = yotta::reroute({replicas, stages, microbatches}, dead);
  for (size_t rank = 0; rank < made.ranks.size(); ++rank) {
    const auto [replica, stage] = made.ranks[rank];
    const auto passes = static_cast<double>(made.schedule.by_rank[rank].size());
    epoch.load[static_cast<size_t>(replica * stages + stage)] = passes / 2;  // forward, backward
  }
  epoch.sequences = batch;
  epoch.seconds = yotta::simulate(made.schedule).length;
}

void share_batch(Epoch& epoch, Recovery recovery, const std::vector<int>& whole) {
  int64_t most = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    const yotta::ShareOfStep share =
        yotta::share_of_step(recovery, batch, 1, 0, replicas, whole, static_cast<int>(i));
    for (int stage = 0; stage < stages; ++stage)
      epoch.load[static_cast<size_t>(whole[i] * stages + stage)] = double(share.end - share.begin);
    most = std::max(most, share.end - share.begin);
    epoch.sequences = static_cast<double>(share.all);
  }
  epoch.seconds = yotta::rerouted_length({static_cast<int>(whole.size()), stages, most}, {});
}

Epoch epoch_of(Recovery recovery, const std::vector<bool>& ready) {
  Epoch epoch{yotta::places_of_epoch(recovery, places, ready, 1)};
  std::vector<yotta::StageOfReplica> dead;
  for (int place = 0; place < places.count(); ++place)
    if (!ready[static_cast<size_t>(place)])
      dead.push_back({places.replica(place), places.part(place)});
  if (epoch.living.empty()) return epoch;
  if (recovery == Recovery::reroute)
    reroute_dead(epoch, dead);
  else
    share_batch(epoch, recovery, yotta::whole_replicas(places, ready));
  return epoch;
}

std::string said(Recovery recovery, const Epoch& epoch, size_t dead) {
  if (dead == 0) return "Nobody is dead.";
  const double most = *std::max_element(epoch.load.begin(), epoch.load.end());
  if (recovery == Recovery::restart)
    return "All wait until each dead GPU is replaced, and go back to the last snapshot.";
  if (epoch.living.empty())
    return recovery == Recovery::reroute ? "A stage is dead in every replica: all wait."
                                         : "No replica is whole: all wait.";
  if (recovery == Recovery::drop)
    return fmt::format("{} of {} sequences of each step are dropped.", batch - epoch.sequences,
                       batch);
  if (recovery == Recovery::replay)
    return fmt::format("The whole replicas share out the batch: {} sequences each at most.", most);
  return fmt::format("Peers do what the dead would have done: {} microbatches at most.", most);
}

std::string code(Recovery recovery, const std::vector<bool>& ready) {
  std::string dead;
  for (size_t place = 0; place < ready.size(); ++place)
    if (!ready[place]) dead += fmt::format("{}{}", dead.empty() ? "" : ", ", place);
  return fmt::format(
      "const yotta::Places places{{{}, {}}};\n"
      "std::vector<bool> ready(16, true);\n"
      "for (const size_t dead : std::vector<size_t>{{{}}}) ready[dead] = false;\n"
      "const auto living = yotta::places_of_epoch(yotta::Recovery::{}, places, ready, 1);\n"
      "fmt::print(\"{{}} GPUs work, {{}} replicas are whole\\n\", living.size(),\n"
      "           yotta::whole_replicas(places, ready).size());",
      replicas, stages, dead, yotta::name(recovery));
}

Data data(const std::vector<double>& at) {
  std::vector<bool> ready;
  for (size_t i = 0; i + 1 < at.size(); ++i) ready.push_back(at[i] == 0);
  const auto recovery = static_cast<Recovery>(at.back());
  const auto dead = static_cast<size_t>(std::count(ready.begin(), ready.end(), false));
  const Epoch epoch = epoch_of(recovery, ready), all = epoch_of(recovery, std::vector(16, true));
  const double share = epoch.sequences / batch;
  Data made;
  made.numbers = {{"GPUs that work", "of 16", static_cast<double>(epoch.living.size()), 6},
                  {"whole replicas", "of 4",
                   static_cast<double>(yotta::whole_replicas(places, ready).size()), 6},
                  {"trained on", "% of the batch", 100 * share}};
  if (!epoch.living.empty())
    made.numbers.push_back({"a step takes", "times as long", epoch.seconds / all.seconds});
  const double speed = epoch.living.empty() ? 0 : share * all.seconds / epoch.seconds;
  made.numbers.push_back({"sequences a second", "% of full speed", 100 * speed});
  made.rows = {{"sizes", {replicas, stages}, {}},
               {"dead", {at.begin(), at.end() - 1}, {}},
               {"load", epoch.load, {}},
               {"said", {}, {said(recovery, epoch, dead)}}};
  made.code = code(recovery, ready);
  return made;
}

}  // namespace

Figure kill_figure() {
  Figure figure{"30_kill",
                "Kill GPUs: four replicas of a pipeline of four stages train together. Who works "
                "on, and how fast, if the others drop, share out or reroute what is lost?",
                {},
                data};
  for (int place = 0; place < places.count(); ++place)
    figure.settings.push_back(
        {fmt::format("replica {}, stage {} is dead", places.replica(place), places.part(place)),
         "",
         {0, 1},
         place == 5 ? 1u : 0u});
  figure.settings.push_back(choice("recovery", {"restart", "drop", "replay", "reroute"}, 3));
  return figure;
}

}  // namespace book
