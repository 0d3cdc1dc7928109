// Transport: how bytes get from rank to rank. One object a rank; threads, MPI and NCCL each have one.
//
//     Communicator   checks arguments, counts, names what went wrong        communicator.hpp
//     Engine         blocks, or suspends fibers, until requests are done     engine.hpp
//     Transport      post, test, sleep until something is done               here
//
// The whole interface is: post a Request, ask whether it is done, sleep until any is. A request is a
// plain struct owned by whoever waits for it; it must stay where it is until it is done or withdrawn.
// Messages of one (group, sender, receiver, tag) are matched in the order in which they were posted.
// Ranks are world ranks here; a group (the transport's side of a communicator) is a number.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "yotta/comm/data.hpp"
#include "yotta/core/error.hpp"

namespace yotta {

struct Request {
  enum class Kind : uint8_t { send, recv, meet };
  Kind kind = Kind::send;
  int group = 0;
  int peer = 0;       // world rank; for meet unused
  int64_t tag = 0;    // 0 and up: the user's; below 0: -1 - the number of a collective of the group
  Data data;          // a send only reads it
  double stamp = 0;   // a send brings it, a recv finds it: when the message arrives, on a virtual clock
  const char* operation = "";  // what the user called, and where
  Where where;
  std::atomic<bool> done = false;  // set by the transport; everything else is then safe to read
  uintptr_t handle = 0;            // for the transport's own use

  Request() = default;
  Request(const Request&) = delete;  // others hold its address
  Request& operator=(const Request&) = delete;
};

// One strand of a rank, and all it waits for: the rank's main code, or a collective in a fiber.
struct Waiting {
  const char* operation = "";  // for people: what was called, and where
  Where where;
  std::vector<const Request*> requests;  // all of them must be done
  int strand = -1;                       // or: waits for this other strand of the same rank (a Work)
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;  // in the world
  virtual int size() const = 0;

  // Starts a send or a recv; may be done on return. Errors: Mismatch, if the two sides differ.
  virtual void post(Request& request) = 0;
  // Is it done? Never blocks. May advance the transport.
  virtual bool test(Request& request) = 0;
  // Takes back a request that is not done; on return nobody touches its data any more.
  virtual void withdraw(Request& request) = 0;
  // Sleeps until any request in `strands` may be done (it may also return early). strands[0] is the
  // rank's main code. Errors: Deadlock, PeerFailed.
  virtual void sleep(std::span<const Waiting> strands, double seconds) = 0;

  // Throws PeerFailed if another rank has failed; cheap, called on entry to every operation.
  virtual void check(Where where) = 0;

  // A new group of these world ranks. Every member calls it with the same arguments; (parent,
  // sequence, color) names it. Returns the group's number on this rank. Group 0 is the world.
  virtual int open_group(int parent, int64_t sequence, int color,
                         const std::vector<int>& members) = 0;
};

}  // namespace yotta
