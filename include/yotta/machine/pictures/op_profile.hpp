// Where the time of training steps went: one row for each op and pass.
//
//     op       pass        calls     ms   of time   GFLOP/s   GB/s   of its roof
//     matmul   forward        25   61.0     31.2%     110.2    9.1           94%
//     gelu     forward         6    4.1      2.1%       9.6    7.7           38%
//
// Its roof is the roofline's: its FLOPs at the peak or its bytes at the memory's rate, whichever
// takes longer, is the least time that it can take. A low share of a row that takes long is the
// next gain. More than 100% means that its arrays came from a cache.
//
// An op that this computer timed ends when the next op or message begins (comm/recording): what
// the program does in between counts as part of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/machine/trace.hpp"

namespace yotta {

// All calls of an op in one pass, on all ranks.
struct OpRow {
  std::string_view op;
  Phase phase = Phase::none;
  int64_t calls = 0;
  double flops = 0, bytes = 0;  // as the ledger counts them
  double seconds = 0;           // that they took
  double roof_seconds = 0;      // that they would take at the roof
};

struct OpProfile {
  std::vector<OpRow> rows;  // the longest first
  int ranks = 1;
  int64_t steps = 1;
  double seconds = 0;          // of all ranks together
  double wait_seconds = 0;     // in which they waited for others
  double between_seconds = 0;  // in which they did neither
};

// The least seconds that an op can take.
using OpRoof = std::function<double(const TraceEvent& op)>;

// Of the `steps` steps that a trace has between two times, in seconds. Errors: no time lies between
// them.
OpProfile op_profile(const Trace& trace, double begin, double end, int64_t steps,
                     const OpRoof& roof, Where where = Where::current());

// The table; calls and times are those of one step on one rank. Ops of less than `least` of the
// time are one line.
std::string op_profile_text(const OpProfile& profile, double least = 0.005);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/pictures/impl/op_profile.ipp"
#endif
