// Transport: how bytes get from rank to rank. One object per rank; threads, MPI and NCCL each have
// one.
//
//     Communicator   checks arguments, counts, says what went wrong          communicator.hpp
//     Engine         blocks, or suspends fibers, until requests are done     engine.hpp
//     Transport      post, test, sleep until something is done               here
//
// The whole interface is: post a Request, ask whether it is done, sleep until one is. A request is
// a plain struct owned by whoever waits for it; it must stay where it is until it is done or
// withdrawn. Messages of one (group, sender, receiver, tag) are matched in the order in which they
// were posted. A collective that the transport runs by itself (MPI_Iallreduce, ncclAllReduce) is a
// request like any other. Ranks are world ranks here; a group (the transport's side of a
// communicator) is a number.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/data.hpp"
#include "yotta/core/error.hpp"

namespace yotta {

// What the user called: for messages to people, and to compare the calls of a collective.
struct Call {
  const char* operation = "";
  int64_t count = 0;  // elements; -1: may differ between ranks
  DType dtype = DType::u8;
  int root = -1;  // -1: has none
  const char* op = "";
  const char* algorithm = "";
  Where where;
  bool is_custom = false;  // a collective that the user has written
};

// "all_reduce of 16 f32, sum"
std::string describe_operation(const Call& call);
// "all_reduce of 16 f32, sum, at a.cpp:10"
std::string describe(const Call& call);
// Two ranks of a communicator, each with its description of a call, should have made the same one.
std::string describe_mismatch(int first, const std::string& its, int second,
                              const std::string& other);

struct Request {
  enum class Kind : uint8_t { send, recv, meet, native };
  Kind kind = Kind::send;
  int group = 0;
  int peer = 0;      // world rank at the other end
  int image = -1;    // its chip, if it is an image of this rank (mirrored.hpp)
  int64_t tag = 0;   // 0 and up: the user's; below 0: -1 - the number of a collective of the group
  Data data;         // a send only reads it
  EventStamp stamp;  // when the message travels on a virtual clock: goes from send to recv
  const Call* call = nullptr;      // must live as long as the request
  std::atomic<bool> done = false;  // set by the transport, after everything else
  bool is_detached = false;  // nobody joins it: done means that its data may go, on a device too
  int owner = 0;             // world rank that posted it  ┐ the transport's own
  uintptr_t handle = 0;      //                            ┘
  std::string_view communicator = {};  // the name of its group, for timelines

  Request() = default;
  Request(const Request&) = delete;  // others hold its address
  Request& operator=(const Request&) = delete;
};

// A collective for a transport that has it itself. Arrays as in communicator.hpp; broadcast, reduce
// and all_reduce work in place: in is out. mean is asked for as a sum.
struct NativeCall {
  Operation operation;
  ConstData in = {};
  Data out = {};
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::span<const int64_t> in_counts = {}, out_counts = {};  // all_to_all_v, by rank of the group
};

// One strand of a rank and what it waits for. Strand 0 is the rank's main code, the others are
// collectives in fibers. A strand waits until all its requests are done, or for another strand.
struct Waiting {
  const Call* call = nullptr;             // the operation
  Where where;                            // where the rank stands now: the call, or a later wait()
  std::array<Request*, 2> requests = {};  // null: none
  int strand = -1;                        // a Work of the same rank, or -1
  bool only_asks = false;  // done(): it does not wait, and may do something else (strand 0)
};

// Shared memory's meeting place for one collective (threads/collective_rendezvous.hpp).
class CollectiveRendezvous;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;  // in the world
  virtual int size() const = 0;

  // Starts a send or a recv; may be done on return. Errors: Mismatch, if the two sides differ.
  virtual void post(Request& request) = 0;
  // Is it done? Never blocks. May advance the transport.
  virtual bool test(Request& request) = 0;
  // Orders the rank's own code after a request that is done. For transports whose operations may
  // still be in flight on a device's stream when test() says that they are done.
  virtual void join(Request& request) { static_cast<void>(request); }
  // Takes back a request that is not done; on return nobody touches its data any more.
  virtual void withdraw(Request& request) = 0;
  // Sleeps until all requests of any strand are done, `seconds` have passed, or for no reason at
  // all.
  // Errors: Deadlock, PeerFailed.
  virtual void sleep(std::span<const Waiting> strands, double seconds) = 0;
  // A rank that has slept and found nothing done goes on all the same: it has only asked done().
  virtual void awake() {}

  // Has a rank failed? Then every operation throws from now on.
  virtual bool failed() const = 0;
  // Throws if so; cheap, called on entry to every operation.
  virtual void check(Where where) = 0;
  // Tells the other ranks that this one has failed: their calls throw from now on.
  virtual void fail(const std::string& message) = 0;
  // The rank's code has ended well. Ranks in other processes wait here for each other, or until one
  // has failed.
  // Errors: CommError, for a message to this rank that it has not received.
  virtual void end(Where where) { static_cast<void>(where); }

  // All ranks of a group are about to be split by color (below 0: into none), in each part by key,
  // then by rank. Those of a part open its group next.
  virtual void split(int group, int color, int key) {
    static_cast<void>(group), static_cast<void>(color), static_cast<void>(key);
  }
  // A new group of these world ranks, made by all of them; (parent, sequence, color) names it.
  // Returns its number here. Group 0 is the world.
  virtual int open_group(int parent, int64_t sequence, int color, std::span<const int> members) = 0;
  // This rank will not use a group any more that it has opened.
  virtual void close_group(int group) { static_cast<void>(group); }

  // Are all ranks in one memory, so that native collectives can read each other's buffers?
  virtual bool shares_memory() const { return false; }
  // Would it run a collective of this whole array itself? All ranks must answer alike.
  virtual bool has_native(ConstData whole) const {
    return shares_memory() && whole.device == Device::cpu;
  }
  // Starts one, of kind native: among the ranks of request.group, each with its own `call`. A group
  // has one in flight at most, unless the transport queues them: then they run in the order in
  // which they were posted.
  virtual bool has_queues(Device device) const {
    static_cast<void>(device);
    return false;
  }
  virtual void post(Request& request, const NativeCall& call) {
    static_cast<void>(call);
    yotta::fail(request.call->where, "these ranks have no {} of their own; take another algorithm",
                request.call->operation);
  }
  // When a rank starts and ends the collective `number` of a group. A transport that can compares
  // the calls (Mismatch) and, where all ranks share memory, returns their meeting place: it is the
  // handle of a meet request, whose tag says how many meetings must be complete.
  virtual CollectiveRendezvous* enter(int group, int64_t number, const Call& call) {
    static_cast<void>(group), static_cast<void>(number), static_cast<void>(call);
    return nullptr;
  }
  virtual void arrive(CollectiveRendezvous& rendezvous, int group_rank) {
    static_cast<void>(rendezvous), static_cast<void>(group_rank);
  }
  virtual void leave(int group, CollectiveRendezvous& rendezvous) {
    static_cast<void>(group), static_cast<void>(rendezvous);
  }
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/engine/impl/transport.ipp"
#endif
