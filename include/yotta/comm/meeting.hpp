// Meeting: what a native collective may use when the ranks of a group share one memory.
//
//     rank 0   post A ─┐           read and write each       ─┐
//     rank 1   post B ─┼─ meet ─►  other's buffers, as        ─┼─ meet ─►  buffers are their owner's again
//     rank 2   post C ─┘           A, B and C tell where      ─┘
//
// A collective over messages copies every number through a mailbox. Ranks that are threads can do
// without: each says where its buffers are, and the others read and write them in place.
#pragma once

#include <span>

#include "yotta/core/ledger.hpp"

namespace yotta {

class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Leaves `mine`, waits for the ranks that have not come yet (in a fiber: suspends), and returns what
  // each rank has left, by rank. The answer and what it points to hold until this rank's next meet().
  // Writes made before a meeting are seen by everybody after it.
  virtual std::span<const void* const> meet(const void* mine) = 0;

  // Counts what crossed between this rank and others since the last meeting.
  virtual void count(const Traffic& crossed) = 0;
};

}  // namespace yotta
