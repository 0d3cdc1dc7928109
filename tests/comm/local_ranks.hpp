// Ranks for tests of the algorithms alone: p threads, each with a Channel and a SharedMemoryChannel
// that count what they carry. Sends are never buffered, so an order that works only with buffers
// stands still (and fails after two minutes instead of hanging).
#pragma once

#include <functional>
#include <vector>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/threads/collective_rendezvous.hpp"

namespace yotta_test {

using namespace yotta;

class LocalRanks {
 public:
  class Rank : public Channel, public SharedMemoryChannel {
   public:
    int rank() const override = 0;
    int size() const override = 0;
    virtual Sent sent() const = 0;
    virtual Sent received() const = 0;
  };

  // Runs body(rank) on every rank and returns what each has sent; rethrows the first error.
  static std::vector<Sent> run(int size, const std::function<void(Rank&)>& body);
};

}  // namespace yotta_test
