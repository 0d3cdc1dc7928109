// Starting the ranks of a job as processes of this machine, and waiting for their end.
//
//     run_processes(4, {"/path/program", "--steps", "20"})
//
//     starter ─── line ─── rank 0          each rank inherits a line to the starter (job_line.hpp),
//        ├─────── line ─── rank 1          and gets a socket to each other rank on it
//        └─────── line ─── rank 2
//
// Nothing listens, nothing has a name, and nothing is left behind: not a file, not a port, not a
// key. If one fails the others are told, and end by themselves. What has not ended a while after
// that is killed. If this process ends, also by SIGKILL, the kernel kills all.
// Cost: one process each, and n (n - 1) / 2 pairs of sockets.
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/sockets/job_line.hpp"

namespace yotta {

// Starts n processes of a program, whose path is program[0], and waits for all. A process that has
// joined the job and does not say that it ended well has failed, whatever its status. A signal that
// `seen` tells of is passed on to all, once. What has not ended `patience` seconds after a failure
// is killed. Errors: no program of that name; too many ranks.
LaunchResult run_processes(int n, const std::vector<std::string>& program,
                           SignalSeen seen = nullptr, double patience = 20,
                           Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/run_processes.ipp"
#endif
