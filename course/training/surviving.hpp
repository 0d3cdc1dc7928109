// A training run that goes on when ranks die: what `train` adds to resilience/survivor.hpp.
#pragma once

#include <string>
#include <vector>

#include "yotta/resilience/survivor.hpp"

namespace yotta {

struct TrainingPlan;

struct Tolerance {
  Recovery recovery = Recovery::replay;
  int missing = 0;             // replicas that may be missing while the others go on; with
                               // reroute ranks of each stage
  int64_t snapshot_every = 1;  // steps
  std::string snapshots;       // a folder for those on the disk; empty: none
  std::string faults;          // a fault plan's file; empty: none
};

// How a run goes on if nothing is said: by the replicas that are left, if there are several, with
// the whole batch; else from a snapshot.
Recovery usual_recovery(const TrainingPlan& plan);

// Throws, with what would work, if a plan with a tolerance cannot be.
void expect_tolerance(const TrainingPlan& plan);

// The plan's places: one for each rank of its layout.
Places places_of(const TrainingPlan& plan);
// Who takes part in an epoch.
EpochRule rule_of(const TrainingPlan& plan);
// What all wait for, while these places keep the job from going on.
std::string wait_words(const TrainingPlan& plan, const std::vector<int>& missing);
// The plan of an epoch in which so many ranks take part: whole replicas. With reroute the layout
// stays that of all ranks, of which some are dead.
TrainingPlan plan_of_epoch(const TrainingPlan& plan, const Epoch& epoch);
// What a rank of such an epoch trains on; index: its place among those that see different
// sequences.
ShareOfStep share_of_epoch(const TrainingPlan& plan, const Epoch& epoch, int index);

// What each member of a run is told. first: steps done when it begins; run: its mark.
SurvivorOptions survivor_options(const TrainingPlan& plan, int64_t first, uint64_t run);
// How a member at this place dies: a thread by RankKilled, a process by SIGKILL.
std::function<void()> way_to_die(int place);

// What was lost, in words.
std::string describe_losses(const std::vector<EpochRecord>& epochs, int64_t dropped,
                            const std::vector<Death>& deaths);

}  // namespace yotta
