// SharedMemoryChannel: what a native collective of threads may use. All ranks are in one memory, so nothing has to
// be sent: each shows its addresses to the others, all meet, and then everyone reads what it needs.
//
//     rank 0   show(in, out) ── meet ── reads its share of everybody's `in` ── meet ── reads others' `out` ── meet
//     rank 1   show(in, out) ── meet ── ...                                                                     ▲
//                                                         nobody may leave while others still read its buffers ─┘
//
// Like Channel, it hides whether the caller runs on the rank's own stack or in a fiber: meet() blocks.
#pragma once

#include "yotta/comm/data.hpp"

namespace yotta {

class SharedMemoryChannel {
 public:
  virtual ~SharedMemoryChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // What the others may see of this rank after the next meet().
  virtual void show(ConstData in, Data out) = 0;
  // Blocks until all ranks of the group have called it as often as this one. What they wrote before is
  // seen after. A collective must end with a meet() if others read this rank's buffers after the last.
  virtual void meet() = 0;
  virtual ConstData in(int rank) const = 0;
  virtual Data out(int rank) const = 0;

  // Counts in this rank's ledger what the others' memory gave it and what they took: a native
  // collective sends no message, but the bytes cross all the same.
  virtual void count(const Traffic& traffic) = 0;
};

}  // namespace yotta
