// The bodies of communicator.hpp: each call goes to its Caller, with the group of this
// communicator.
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/engine/calls.hpp"
#include "yotta/comm/engine/mirrored.hpp"

namespace yotta {

inline namespace YOTTA_FORM {

YOTTA_INLINE int Communicator::rank(Where where) const {
  return Caller(group_).group_or_fail(where).rank;
}
YOTTA_INLINE int Communicator::size(Where where) const {
  return Caller(group_).group_or_fail(where).size();
}
YOTTA_INLINE const std::vector<int>& Communicator::members(Where where) const {
  return Caller(group_).group_or_fail(where).members;
}
YOTTA_INLINE Communicator Communicator::named(std::string_view name) const {
  if (group_ != nullptr) group_->name = kept(name);
  return *this;
}
YOTTA_INLINE std::string_view Communicator::name(Where where) const {
  return Caller(group_).group_or_fail(where).name;
}
YOTTA_INLINE bool Communicator::is_mirrored(Where where) const {
  return Caller(group_).group_or_fail(where).is_mirrored();
}

YOTTA_INLINE void Communicator::send(ConstData data, int to, int tag, Where where) const {
  return Caller(group_).send(data, to, tag, where);
}
YOTTA_INLINE void Communicator::recv(Data data, int from, int tag, Where where) const {
  return Caller(group_).recv(data, from, tag, where);
}
YOTTA_INLINE void Communicator::send_recv(ConstData outgoing, int to, Data incoming, int from,
                                          int tag, Where where) const {
  return Caller(group_).send_recv(outgoing, to, incoming, from, tag, where);
}
YOTTA_INLINE Work Communicator::send_async(ConstData data, int to, int tag, Where where) const {
  return Caller(group_).send_async(data, to, tag, where);
}
YOTTA_INLINE Work Communicator::recv_async(Data data, int from, int tag, Where where) const {
  return Caller(group_).recv_async(data, from, tag, where);
}

YOTTA_INLINE void Communicator::broadcast(Data data, int root, CommOptions options,
                                          Where where) const {
  CollectiveCaller(group_).broadcast(Mode::blocking, data, root, options, where).wait();
}
YOTTA_INLINE Work Communicator::broadcast_async(Data data, int root, CommOptions options,
                                                Where where) const {
  return CollectiveCaller(group_).broadcast(Mode::async, data, root, options, where);
}
YOTTA_INLINE void Communicator::reduce(Data data, int root, ReduceOp op, CommOptions options,
                                       Where where) const {
  CollectiveCaller(group_).reduce(Mode::blocking, data, root, op, options, where).wait();
}
YOTTA_INLINE Work Communicator::reduce_async(Data data, int root, ReduceOp op, CommOptions options,
                                             Where where) const {
  return CollectiveCaller(group_).reduce(Mode::async, data, root, op, options, where);
}
YOTTA_INLINE void Communicator::all_reduce(Data data, ReduceOp op, CommOptions options,
                                           Where where) const {
  CollectiveCaller(group_).all_reduce(Mode::blocking, data, op, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_reduce_async(Data data, ReduceOp op, CommOptions options,
                                                 Where where) const {
  return CollectiveCaller(group_).all_reduce(Mode::async, data, op, options, where);
}
YOTTA_INLINE void Communicator::reduce_scatter(Data out, ConstData in, ReduceOp op,
                                               CommOptions options, Where where) const {
  CollectiveCaller(group_).reduce_scatter(Mode::blocking, out, in, op, options, where).wait();
}
YOTTA_INLINE Work Communicator::reduce_scatter_async(Data out, ConstData in, ReduceOp op,
                                                     CommOptions options, Where where) const {
  return CollectiveCaller(group_).reduce_scatter(Mode::async, out, in, op, options, where);
}
YOTTA_INLINE void Communicator::all_gather(Data out, ConstData in, CommOptions options,
                                           Where where) const {
  CollectiveCaller(group_).all_gather(Mode::blocking, out, in, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_gather_async(Data out, ConstData in, CommOptions options,
                                                 Where where) const {
  return CollectiveCaller(group_).all_gather(Mode::async, out, in, options, where);
}
YOTTA_INLINE void Communicator::all_to_all(Data out, ConstData in, CommOptions options,
                                           Where where) const {
  CollectiveCaller(group_).all_to_all(Mode::blocking, out, in, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_to_all_async(Data out, ConstData in, CommOptions options,
                                                 Where where) const {
  return CollectiveCaller(group_).all_to_all(Mode::async, out, in, options, where);
}
YOTTA_INLINE void Communicator::all_to_all_v(Data out, Counts out_counts, ConstData in,
                                             Counts in_counts, CommOptions options,
                                             Where where) const {
  CollectiveCaller(group_)
      .all_to_all_v(Mode::blocking, out, out_counts, in, in_counts, options, where)
      .wait();
}
YOTTA_INLINE Work Communicator::all_to_all_v_async(Data out, Counts out_counts, ConstData in,
                                                   Counts in_counts, CommOptions options,
                                                   Where where) const {
  return CollectiveCaller(group_).all_to_all_v(Mode::async, out, out_counts, in, in_counts, options,
                                               where);
}
YOTTA_INLINE void Communicator::gather(Data out, ConstData in, int root, CommOptions options,
                                       Where where) const {
  CollectiveCaller(group_).gather(Mode::blocking, out, in, root, options, where).wait();
}
YOTTA_INLINE Work Communicator::gather_async(Data out, ConstData in, int root, CommOptions options,
                                             Where where) const {
  return CollectiveCaller(group_).gather(Mode::async, out, in, root, options, where);
}
YOTTA_INLINE void Communicator::scatter(Data out, ConstData in, int root, CommOptions options,
                                        Where where) const {
  CollectiveCaller(group_).scatter(Mode::blocking, out, in, root, options, where).wait();
}
YOTTA_INLINE Work Communicator::scatter_async(Data out, ConstData in, int root, CommOptions options,
                                              Where where) const {
  return CollectiveCaller(group_).scatter(Mode::async, out, in, root, options, where);
}
YOTTA_INLINE void Communicator::barrier(CommOptions options, Where where) const {
  CollectiveCaller(group_).barrier(Mode::blocking, options, where).wait();
}
YOTTA_INLINE Work Communicator::barrier_async(CommOptions options, Where where) const {
  return CollectiveCaller(group_).barrier(Mode::async, options, where);
}

YOTTA_INLINE void Communicator::collective(const char* name, const CollectiveBody& body,
                                           Where where) const {
  CollectiveCaller(group_).custom(Mode::blocking, name, body, where).wait();
}
YOTTA_INLINE Work Communicator::collective_async(const char* name, const CollectiveBody& body,
                                                 Where where) const {
  return CollectiveCaller(group_).custom(Mode::async, name, body, where);
}

YOTTA_INLINE Communicator Communicator::split(int color, int key, Where where) const {
  return Communicator(split_group(CollectiveCaller(group_), color, key, where));
}
YOTTA_INLINE Communicator Communicator::mirrored(std::vector<int> chips, Where where) const {
  return Communicator(mirror_group(Caller(group_), std::move(chips), where));
}

}  // namespace YOTTA_FORM

YOTTA_INLINE double sum_over(const Communicator& axis, double mine, const char* label,
                             Where where) {
  if (axis_size(axis) == 1) return mine;
  std::vector<double> sum = {mine};
  axis.all_reduce(sum, ReduceOp::sum, {.label = label}, where);
  return sum[0];
}

}  // namespace yotta
