// Starting the members of a job, and others in place of those that die: tcp_epochs.hpp says what
// the files mean.
//
//     start_members(8, rule, program)     one process for each place, and spares
//         waits for its processes         one was killed: a spare, or another, takes its place
//         writes FOLDER/job               when an epoch begins, and when somebody has come
//
// A process that is stopped is killed after a while (MemberOptions::patience), and so is one that
// does not come to an epoch: the others would wait for it. A rank hears of a death in its next call
// of the library. One that computes until then uses the CPU, which the starter sees: it has ten
// times as long.
// A process that was killed by a signal is replaced. One that ends by itself with an error ends the
// job: the same error would come again. So does a process that is killed again and again
// (MemberOptions::most_deaths), and a job that has epoch after epoch although nobody dies.
// Contract: FOLDER is the starter's own, on this machine, and goes when it ends, by Ctrl-C too. A
// starter that is killed with SIGKILL leaves it. The lock on it is gone then, and the next starter
// of this user removes it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/tcp/tcp_epochs.hpp"

namespace yotta {

inline constexpr double usual_patience = 20;  // seconds

struct MemberOptions {
  int spares = 0;  // processes that are ready before anybody dies
  int most_deaths = 100;
  double patience = usual_patience;  // for what is stopped, or does not come, or does not end
  // Called at once and then every second while an epoch is due and all wait for these places.
  std::function<void(const std::vector<int>& missing)> all_wait = {};
};
inline constexpr double busy_patience = 10;  // times as long, for what computes

// Starts the members of a job, and others in place of those that are killed, until the work is
// done. Errors: no program of that name.
LaunchResult start_members(int places, const EpochRule& rule, std::vector<std::string> program,
                           const MemberOptions& options = {}, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/tcp/impl/tcp_starter.ipp"
#endif
