// Communicator: what a rank calls to talk to the others of its group. Names are NCCL's and
// PyTorch's.
//
//     world.send(x, 1);              to one rank, by tag           recv, send_recv, send_async, ...
//     world.all_reduce(gradient);    everybody, together           broadcast, all_gather, ...
//     auto row = world.split(rank / 4, rank).named("row");         a communicator of some of them
//
// Every call checks its arguments, is counted in the ledger, and either returns, having done what
// it says, or throws: Deadlock, Mismatch, Timeout, PeerFailed (failures.hpp). None hangs. Every
// collective comes as `x` (blocking) and `x_async` (returns a Work; the buffers are not yours until
// wait()).
//
// n is the number of elements of the whole array. Where it is cut among p ranks the first n % p
// chunks are one longer (chunk_count), so any n works:
//
//                     in                  out
//     broadcast       data: n             data: n, the root's
//     reduce          data: n             data: n on the root: the sum; elsewhere unchanged
//     all_reduce      data: n             data: n: the sum
//     reduce_scatter  n                   chunk `rank` of the sum
//     all_gather      chunk `rank`        n: all chunks
//     all_to_all      n: chunk j to j     chunk `rank` of everybody's: p * chunk_count(n, p, rank)
//     gather          chunk `rank`        n on the root
//     scatter         n on the root       chunk `rank`
//
// A Communicator is a handle: copy it by value; copies are the same communicator. It belongs to its
// rank's thread. What happens in a call: engine/collective_calls.hpp.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "yotta/comm/comm_options.hpp"
#include "yotta/comm/data.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/work.hpp"

namespace yotta {

class Channel;  // the sends and receives of a collective (channel.hpp)
// A collective of your own: plain code on them, run by all ranks of a group.
using CollectiveBody = std::function<void(Channel&)>;
struct Group;  // what the ranks of a communicator share (engine/message.hpp)

inline namespace YOTTA_FORM {

class Communicator {
 public:
  Communicator() = default;  // of no rank: what split returns to ranks that are not members
  explicit Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  int rank(Where where = Where::current()) const;
  int size(Where where = Where::current()) const;
  bool is_member() const { return group_ != nullptr; }
  // Ranks of the world, by rank of this communicator.
  const std::vector<int>& members(Where where = Where::current()) const;

  // The same communicator, which timelines call `name` from now on. Until then the second split of
  // the world is "split 2 of world". An empty communicator stays without a name.
  Communicator named(std::string_view name) const;
  std::string_view name(Where where = Where::current()) const;

  // One to one. tag >= 0; both sides name the same count and type. send() copies and returns (with
  // RunOptions::buffered_sends false it waits for the receiver); the others wait.
  void send(ConstData data, int to, int tag = 0, Where where = Where::current()) const;
  void recv(Data data, int from, int tag = 0, Where where = Where::current()) const;
  // Both at once: ranks that all send first do not deadlock. `outgoing` leaves for `to`, `incoming`
  // arrives from `from`.
  void send_recv(ConstData outgoing, int to, Data incoming, int from, int tag = 0,
                 Where where = Where::current()) const;
  Work send_async(ConstData data, int to, int tag = 0, Where where = Where::current()) const;
  Work recv_async(Data data, int from, int tag = 0, Where where = Where::current()) const;

  // All together, in the same order on every rank.
  void broadcast(Data data, int root, CommOptions options = {},
                 Where where = Where::current()) const;
  Work broadcast_async(Data data, int root, CommOptions options = {},
                       Where where = Where::current()) const;
  void reduce(Data data, int root, ReduceOp op = ReduceOp::sum, CommOptions options = {},
              Where where = Where::current()) const;
  Work reduce_async(Data data, int root, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                    Where where = Where::current()) const;
  void all_reduce(Data data, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                  Where where = Where::current()) const;
  Work all_reduce_async(Data data, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                        Where where = Where::current()) const;
  void reduce_scatter(Data out, ConstData in, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                      Where where = Where::current()) const;
  Work reduce_scatter_async(Data out, ConstData in, ReduceOp op = ReduceOp::sum,
                            CommOptions options = {}, Where where = Where::current()) const;
  void all_gather(Data out, ConstData in, CommOptions options = {},
                  Where where = Where::current()) const;
  Work all_gather_async(Data out, ConstData in, CommOptions options = {},
                        Where where = Where::current()) const;
  void all_to_all(Data out, ConstData in, CommOptions options = {},
                  Where where = Where::current()) const;
  Work all_to_all_async(Data out, ConstData in, CommOptions options = {},
                        Where where = Where::current()) const;
  // Counts by rank: in_counts[j] elements go to rank j, out_counts[j] come from it.
  void all_to_all_v(Data out, Counts out_counts, ConstData in, Counts in_counts,
                    CommOptions options = {}, Where where = Where::current()) const;
  Work all_to_all_v_async(Data out, Counts out_counts, ConstData in, Counts in_counts,
                          CommOptions options = {}, Where where = Where::current()) const;
  // On ranks other than the root `out` may be empty if p divides n; else it has n elements and no
  // address.
  void gather(Data out, ConstData in, int root, CommOptions options = {},
              Where where = Where::current()) const;
  Work gather_async(Data out, ConstData in, int root, CommOptions options = {},
                    Where where = Where::current()) const;
  // On ranks other than the root the same holds for `in`.
  void scatter(Data out, ConstData in, int root, CommOptions options = {},
               Where where = Where::current()) const;
  Work scatter_async(Data out, ConstData in, int root, CommOptions options = {},
                     Where where = Where::current()) const;
  void barrier(CommOptions options = {}, Where where = Where::current()) const;
  Work barrier_async(CommOptions options = {}, Where where = Where::current()) const;

  // Runs a collective of your own, by all ranks of the group.
  void collective(const char* name, const CollectiveBody& body,
                  Where where = Where::current()) const;
  Work collective_async(const char* name, const CollectiveBody& body,
                        Where where = Where::current()) const;

  // Ranks that give the same color form a communicator, ordered by key, then by rank. color < 0:
  // none. All ranks of this communicator must call.
  Communicator split(int color, int key, Where where = Where::current()) const;

  // A communicator over these chips. Only this rank, the first, really runs; the others are assumed
  // to do the same (engine/mirrored.hpp). No other rank need call.
  Communicator mirrored(std::vector<int> chips, Where where = Where::current()) const;
  bool is_mirrored(Where where = Where::current()) const;

 private:
  std::shared_ptr<Group> group_;
};

}  // namespace YOTTA_FORM

// ---- a communicator as an axis of the mesh ----
//
//     Communicator tp = mesh[Axis::tp];      axis_size 2, axis_rank 0 or 1
//     Communicator tp;                       axis_size 1, axis_rank 0: not split, nothing to send
//
// A layer takes the communicators of the axes that split it, empty ones by default. With size 1
// there is nobody to send to, and the same code is the serial layer.

// Ranks along an axis; 1 if the communicator is empty.
inline int axis_size(const Communicator& axis) { return axis.is_member() ? axis.size() : 1; }

// This rank's coordinate on it; 0 if the communicator is empty.
inline int axis_rank(const Communicator& axis) { return axis.is_member() ? axis.rank() : 0; }

// One number from each rank, summed for all: a loss, the squares of a norm. All ranks call. With
// one rank the result is `mine`.
double sum_over(const Communicator& axis, double mine, const char* label,
                Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/communicator.ipp"
#endif
