// What NCCL ranks need of NCCL and of CUDA's streams, and how each collective is expressed in
// NCCL's calls.
//
//     NcclTransport (nccl_transport.hpp) ──► NcclLibrary ─┬─ nccl.hpp: NCCL itself
//                                                         └─ tests: mailboxes, without a GPU
//
// NCCL has no all-to-all, gather and scatter: they are messages, all in one group. It reduces and
// gathers equal chunks only: where the ranks do not divide the count, one reduction, or one
// broadcast, per chunk takes its place.
#pragma once

#include <array>

#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/engine/transport.hpp"

namespace yotta {

// A call may return before it has been carried out. Until then ready() is false, and no other call
// may be made on that communicator. join() and split() return a lane, into which another thread
// writes the communicator when it is there: until then is_made() is false, no call may be made, and
// the lane may not be left. Errors: CommError with NCCL's message.
class NcclLibrary {
 public:
  using Handle = void*;
  using Id = std::array<std::byte, 128>;
  using Mark = uintptr_t;  // a point on a stream, a lane's or the compute stream; 0: none

  virtual ~NcclLibrary() = default;
  virtual Id new_id() = 0;
  virtual Handle join(const Id& id, int size, int rank) = 0;  // with a stream of its own
  // Splits a lane by color; in each part the ranks are ordered by key, then by rank. color < 0: in
  // no part. Then the lane that it returns stays without a communicator, and may be left when the
  // one that was split is ready again.
  virtual bool can_split() const = 0;
  virtual Handle split(Handle lane, int color, int key) = 0;
  virtual bool is_made(Handle lane) = 0;
  virtual bool ready(Handle lane) = 0;
  // All that the lane was given is to end; all ranks call it. Then it is left when it is ready.
  virtual void finalize(Handle lane) = 0;
  virtual void leave(Handle lane, bool aborts) noexcept = 0;
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual Mark computed() = 0;         // after all that the rank has computed so far
  virtual Mark mark(Handle lane) = 0;  // after all that the lane has been given
  // What the lane is given next, or what the rank computes next, starts after the mark.
  virtual void lane_after(Handle lane, Mark mark) = 0;
  virtual void compute_after(Mark mark) = 0;
  virtual bool has_passed(Mark mark) = 0;  // has the device reached it?
  virtual void forget(Mark mark) noexcept = 0;
  virtual void send(Handle lane, ConstData data, int to) = 0;
  virtual void recv(Handle lane, Data data, int from) = 0;
  virtual void broadcast(Handle lane, ConstData in, Data out, int root) = 0;
  virtual void reduce(Handle lane, ConstData in, Data out, ReduceOp op, int root) = 0;
  virtual void all_reduce(Handle lane, ConstData in, Data out, ReduceOp op) = 0;
  virtual void reduce_scatter(Handle lane, ConstData in, Data out,
                              ReduceOp op) = 0;                      // equal chunks
  virtual void all_gather(Handle lane, ConstData in, Data out) = 0;  // equal chunks
};

namespace detail {
inline void run_in_group(NcclLibrary& nccl, NcclLibrary::Handle lane, const NativeCall& call, int p,
                         int rank) {
  const ConstData in = call.in;
  const Data out = call.out;
  const auto counts_to = [&](int peer) { return run_of(in, call.in_counts, peer); };
  const auto counts_from = [&](int peer) { return run_of(out, call.out_counts, peer); };
  switch (call.operation) {
    case Operation::broadcast: return nccl.broadcast(lane, in, out, call.root);
    case Operation::reduce: return nccl.reduce(lane, in, out, call.op, call.root);
    case Operation::all_reduce: return nccl.all_reduce(lane, in, out, call.op);
    case Operation::reduce_scatter:
      if (in.count % p == 0) return nccl.reduce_scatter(lane, in, out, call.op);
      for (int r = 0; r < p; ++r) nccl.reduce(lane, in.chunk(r, p), out, call.op, r);
      return;
    case Operation::all_gather:
      if (out.count % p == 0) return nccl.all_gather(lane, in, out);
      for (int r = 0; r < p; ++r)
        nccl.broadcast(lane, r == rank ? in : ConstData(out.chunk(r, p)), out.chunk(r, p), r);
      return;
    case Operation::all_to_all:
      for (int r = 0; r < p; ++r) {
        nccl.send(lane, in.chunk(r, p), r);
        nccl.recv(lane, out.chunk(r, p), r);
      }
      return;
    case Operation::all_to_all_v:
      for (int r = 0; r < p; ++r) {
        nccl.send(lane, counts_to(r), r);
        nccl.recv(lane, counts_from(r), r);
      }
      return;
    case Operation::gather:
      nccl.send(lane, in, call.root);
      for (int r = 0; r < p && rank == call.root; ++r) nccl.recv(lane, out.chunk(r, p), r);
      return;
    case Operation::scatter:
      for (int r = 0; r < p && rank == call.root; ++r) nccl.send(lane, in.chunk(r, p), r);
      return nccl.recv(lane, out, call.root);
    case Operation::barrier: return;  // over `inner`
  }
}
}  // namespace detail

// Runs one collective as one NCCL group: its parts are carried out together.
inline void run_on_lane(NcclLibrary& nccl, NcclLibrary::Handle lane, const NativeCall& call, int p,
                        int rank) {
  nccl.begin_group();
  detail::run_in_group(nccl, lane, call, p, rank);
  nccl.end_group();
}

}  // namespace yotta
