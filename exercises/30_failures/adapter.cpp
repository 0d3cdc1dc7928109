// One solution of exercise 30 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::Recovery recovery_of(exercise::Way way) { return static_cast<student::Recovery>(way); }

exercise::Best intervals(double save, double mean) {
  const student::Intervals best = student::best_intervals(save, mean);
  return {best.young, best.daly};
}
std::vector<int> whole(const exercise::Jobs& places, const std::vector<bool>& ready) {
  return student::whole_replicas({places.replicas, places.parts}, ready);
}
std::vector<int> epoch(exercise::Way way, const exercise::Jobs& places,
                       const std::vector<bool>& ready, int quorum) {
  return student::places_of_epoch(recovery_of(way), {places.replicas, places.parts}, ready, quorum);
}
exercise::Healed heal(const std::vector<exercise::Have>& have, const std::vector<int>& parts) {
  std::vector<student::Offer> offers;
  for (const exercise::Have& each : have) offers.push_back({each.rank, each.part, each.step});
  const student::Healing healing = student::find_healing(offers, parts);
  return {healing.step, healing.sources};
}
std::vector<std::span<std::byte>> memory(yotta::Optimizer& optimizer) {
  return student::memory_of(optimizer);
}
exercise::Share share(exercise::Way way, int64_t batch, int ranks, int index, int replicas,
                      const std::vector<int>& living, int own) {
  const student::ShareOfStep found =
      student::share_of_step(recovery_of(way), batch, ranks, index, replicas, living, own);
  return {found.begin, found.end, found.all};
}

std::vector<std::string> diagnosis(const std::vector<exercise::Seen>& ranks) {
  std::vector<student::RankState> states;
  for (const exercise::Seen& each : ranks) states.push_back({each.heartbeat, each.entered});
  std::vector<std::string> names;
  for (const student::Health health : student::diagnose_hang(states))
    names.push_back(student::name(health));
  return names;
}

}  // namespace

const exercise::Solution exercise::solution = {
    intervals, whole, epoch, heal, memory, share, student::lost_share, diagnosis};
