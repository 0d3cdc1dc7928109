// Starting the members of a job as processes of this machine, and others in place of those that
// die: socket_epochs.hpp is their side.
//
//     run_members(8, rule, program)       one process for each place, and spares
//         waits for its processes         one was killed: a spare, or another, takes its place
//         tells them                      when an epoch begins, and when somebody has come
//
// A process that is stopped is killed after a while (MembersOptions::patience), and so is one that
// does not come to an epoch: the others would wait for it. A rank hears of a death in its next call
// of the library. One that computes until then uses the CPU, which the starter sees: it has ten
// times as long.
// A process that was killed by a signal is replaced. One that ends by itself with an error ends the
// job: the same error would come again. So does a process that is killed again and again
// (MembersOptions::most_deaths), and a job that has epoch after epoch although nobody dies.
// What processes leave for others (JobLine::leave_note) is in the starter's memory. Nothing is on
// disk, so nothing stays when the starter is killed with SIGKILL; its processes end with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/comm/processes/job_start.hpp"

namespace yotta {

inline constexpr double members_patience = 20;  // seconds

struct MembersOptions {
  int spares = 0;  // processes that are ready before anybody dies
  int most_deaths = 100;
  double patience = members_patience;  // for what is stopped, or does not come, or does not end
  // Called at once and then every second while an epoch is due and all wait for these places.
  std::function<void(const std::vector<int>& missing)> all_wait = {};
  // Seconds of the clock that patience is measured with; empty: the computer's.
  std::function<double()> now = {};
};
inline constexpr double busy_patience_times = 10;  // times as long, for what computes

// Starts the members of a job, and others in place of those that are killed, until the work is
// done. Errors: no program of that name.
LaunchResult run_members(int places, const EpochRule& rule, std::vector<std::string> program,
                         const MembersOptions& options = {}, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/run_members.ipp"
#endif
