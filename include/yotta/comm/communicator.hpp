// Communicator: what a rank calls to talk to the others of its group. Names are NCCL's and PyTorch's.
//
//     world.send(x, 1);              to one rank, by tag            recv, send_recv, send_async, ...
//     world.all_reduce(gradient);    everybody, together            broadcast, all_gather, ...
//     auto row = world.split(rank / 4, rank).named("row");          a communicator of some of them
//
// Every call checks its arguments, is counted in the ledger, and either returns, having done what it
// says, or throws: Deadlock, Mismatch, Timeout, PeerFailed (failures.hpp). None hangs. Every collective
// comes as `x` (blocking) and `x_async` (returns a Work; the buffers are not yours until wait()).
//
// n is the number of elements of the whole array. Where it is cut among p ranks the first n % p chunks
// are one longer (chunk_count), so any n works:
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
// A Communicator is a handle: copies are the same communicator. It belongs to its rank's thread.
#pragma once

#include "yotta/comm/mirrored.hpp"

namespace yotta {

class Communicator {
 public:
  Communicator() = default;  // of no rank: what split returns to ranks that are not members
  explicit Communicator(std::shared_ptr<Group> group) { comm_.group = std::move(group); }

  int rank(Where where = Where::current()) const { return comm_.group_or_fail(where).rank; }
  int size(Where where = Where::current()) const { return comm_.group_or_fail(where).size(); }
  bool is_member() const { return comm_.group != nullptr; }
  // Ranks of the world, by rank of this communicator.
  const std::vector<int>& members(Where where = Where::current()) const {
    return comm_.group_or_fail(where).members;
  }

  // The same communicator, which timelines call `name` from now on. Until then the second split of the
  // world is "split 2 of world". An empty communicator stays without a name.
  Communicator named(std::string_view name) const {
    if (comm_.group != nullptr) comm_.group->name = kept(name);
    return *this;
  }
  std::string_view name(Where where = Where::current()) const {
    return comm_.group_or_fail(where).name;
  }

  // One to one. tag >= 0; both sides name the same count and type. send() copies and returns (with
  // RunOptions::buffered_sends false it waits for the receiver); the others wait.
  void send(ConstData data, int to, int tag = 0, Where where = Where::current()) {
    comm_.send(data, to, tag, where);
  }
  void recv(Data data, int from, int tag = 0, Where where = Where::current()) {
    comm_.recv(data, from, tag, where);
  }
  // Both at once: ranks that all send first do not stand still.
  void send_recv(ConstData out, int to, Data in, int from, int tag = 0,
                 Where where = Where::current()) {
    comm_.send_recv(out, to, in, from, tag, where);
  }
  Work send_async(ConstData data, int to, int tag = 0, Where where = Where::current()) {
    return comm_.send_async(data, to, tag, where);
  }
  Work recv_async(Data data, int from, int tag = 0, Where where = Where::current()) {
    return comm_.recv_async(data, from, tag, where);
  }

  // All together, in the same order on every rank.
  void broadcast(Data data, int root, CommOptions options = {}, Where where = Where::current()) {
    comm_.broadcast(Mode::blocking, data, root, options, where).wait();
  }
  Work broadcast_async(Data data, int root, CommOptions options = {},
                       Where where = Where::current()) {
    return comm_.broadcast(Mode::async, data, root, options, where);
  }
  void reduce(Data data, int root, ReduceOp op = ReduceOp::sum, CommOptions options = {},
              Where where = Where::current()) {
    comm_.reduce(Mode::blocking, data, root, op, options, where).wait();
  }
  Work reduce_async(Data data, int root, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                    Where where = Where::current()) {
    return comm_.reduce(Mode::async, data, root, op, options, where);
  }
  void all_reduce(Data data, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                  Where where = Where::current()) {
    comm_.all_reduce(Mode::blocking, data, op, options, where).wait();
  }
  Work all_reduce_async(Data data, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                        Where where = Where::current()) {
    return comm_.all_reduce(Mode::async, data, op, options, where);
  }
  void reduce_scatter(Data out, ConstData in, ReduceOp op = ReduceOp::sum, CommOptions options = {},
                      Where where = Where::current()) {
    comm_.reduce_scatter(Mode::blocking, out, in, op, options, where).wait();
  }
  Work reduce_scatter_async(Data out, ConstData in, ReduceOp op = ReduceOp::sum,
                            CommOptions options = {}, Where where = Where::current()) {
    return comm_.reduce_scatter(Mode::async, out, in, op, options, where);
  }
  void all_gather(Data out, ConstData in, CommOptions options = {},
                  Where where = Where::current()) {
    comm_.all_gather(Mode::blocking, out, in, options, where).wait();
  }
  Work all_gather_async(Data out, ConstData in, CommOptions options = {},
                        Where where = Where::current()) {
    return comm_.all_gather(Mode::async, out, in, options, where);
  }
  void all_to_all(Data out, ConstData in, CommOptions options = {},
                  Where where = Where::current()) {
    comm_.all_to_all(Mode::blocking, out, in, options, where).wait();
  }
  Work all_to_all_async(Data out, ConstData in, CommOptions options = {},
                        Where where = Where::current()) {
    return comm_.all_to_all(Mode::async, out, in, options, where);
  }
  // Counts by rank: in_counts[j] elements go to rank j, out_counts[j] come from it.
  void all_to_all_v(Data out, Counts out_counts, ConstData in, Counts in_counts,
                    CommOptions options = {}, Where where = Where::current()) {
    comm_.all_to_all_v(Mode::blocking, out, out_counts, in, in_counts, options, where).wait();
  }
  Work all_to_all_v_async(Data out, Counts out_counts, ConstData in, Counts in_counts,
                          CommOptions options = {}, Where where = Where::current()) {
    return comm_.all_to_all_v(Mode::async, out, out_counts, in, in_counts, options, where);
  }
  // Off the root `out` may be empty if p divides n; otherwise it has n elements and no address.
  void gather(Data out, ConstData in, int root, CommOptions options = {},
              Where where = Where::current()) {
    comm_.gather(Mode::blocking, out, in, root, options, where).wait();
  }
  Work gather_async(Data out, ConstData in, int root, CommOptions options = {},
                    Where where = Where::current()) {
    return comm_.gather(Mode::async, out, in, root, options, where);
  }
  // Off the root the same holds for `in`.
  void scatter(Data out, ConstData in, int root, CommOptions options = {},
               Where where = Where::current()) {
    comm_.scatter(Mode::blocking, out, in, root, options, where).wait();
  }
  Work scatter_async(Data out, ConstData in, int root, CommOptions options = {},
                     Where where = Where::current()) {
    return comm_.scatter(Mode::async, out, in, root, options, where);
  }
  void barrier(CommOptions options = {}, Where where = Where::current()) {
    comm_.barrier(Mode::blocking, options, where).wait();
  }
  Work barrier_async(CommOptions options = {}, Where where = Where::current()) {
    return comm_.barrier(Mode::async, options, where);
  }

  // Runs a collective of your own, void(Channel&), by all ranks of the group.
  template <class Algorithm>
  void collective(const char* name, Algorithm algorithm, Where where = Where::current()) {
    comm_.custom(Mode::blocking, name, std::move(algorithm), where).wait();
  }
  template <class Algorithm>
  Work collective_async(const char* name, Algorithm algorithm, Where where = Where::current()) {
    return comm_.custom(Mode::async, name, std::move(algorithm), where);
  }

  // Ranks that give the same color form a communicator, ordered by key, then by rank. color < 0: none.
  // All ranks of this communicator must call.
  Communicator split(int color, int key, Where where = Where::current()) const {
    return Communicator(split_group(comm_, color, key, where));
  }

  // A communicator of ranks at these chips, of which this one, the first, is alive and the others do as
  // it does (mirrored.hpp). No other rank need call.
  Communicator mirrored(std::vector<int> chips, Where where = Where::current()) const {
    return Communicator(mirror_group(comm_, std::move(chips), where));
  }
  bool is_mirrored(Where where = Where::current()) const {
    return comm_.group_or_fail(where).is_mirrored();
  }

 private:
  CollectiveCaller comm_;
};

}  // namespace yotta
