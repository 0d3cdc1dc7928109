// The bodies of comm/communicator.hpp.
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/engine/collective_calls.hpp"
#include "yotta/comm/engine/mirrored.hpp"

namespace yotta {

inline namespace YOTTA_FORM {

YOTTA_INLINE int Communicator::rank(Where where) const { return group_or_fail(group_, where).rank; }
YOTTA_INLINE int Communicator::size(Where where) const {
  return group_or_fail(group_, where).size();
}
YOTTA_INLINE const std::vector<int>& Communicator::members(Where where) const {
  return group_or_fail(group_, where).members;
}
YOTTA_INLINE Communicator Communicator::named(std::string_view name) const {
  if (group_ != nullptr) group_->name = kept(name);
  return *this;
}
YOTTA_INLINE std::string_view Communicator::name(Where where) const {
  return group_or_fail(group_, where).name;
}
YOTTA_INLINE bool Communicator::is_mirrored(Where where) const {
  return group_or_fail(group_, where).is_mirrored();
}

YOTTA_INLINE void Communicator::send(ConstData data, int to, int tag, Where where) const {
  Group& self = enter_message(group_, data, to, tag, where);
  const Call call{"send", data.count, data.dtype, -1, "", "", where};
  if (self.engine->options().buffered_sends) return send_copy(self, call, data, to, tag);
  Messages message(self, call, "send", tag);
  message.send(data, to);
  message.wait();
}
YOTTA_INLINE void Communicator::recv(Data data, int from, int tag, Where where) const {
  Group& self = enter_message(group_, data, from, tag, where);
  const Call call{"recv", data.count, data.dtype, -1, "", "", where};
  Messages message(self, call, "send", tag);
  message.recv(data, from);
  message.wait();
}
YOTTA_INLINE void Communicator::send_recv(ConstData outgoing, int to, Data incoming, int from,
                                          int tag, Where where) const {
  Group& self = enter_message(group_, outgoing, to, tag, where);
  expect_data(incoming, "incoming", where);
  expect_rank(from, self.size(), "from", where);
  expect_apart(outgoing, incoming, where);
  const Call call{"send_recv", outgoing.count, outgoing.dtype, -1, "", "", where};
  Messages both(self, call, "send", tag);
  both.send(outgoing, to);
  both.recv(incoming, from);
  both.wait();
}
YOTTA_INLINE Work Communicator::send_async(ConstData data, int to, int tag, Where where) const {
  enter_message(group_, data, to, tag, where);
  const Call call{"send", data.count, data.dtype, -1, "", "", where};
  return start_message(group_, Request::Kind::send, call, {}, data, to, tag);
}
YOTTA_INLINE Work Communicator::recv_async(Data data, int from, int tag, Where where) const {
  enter_message(group_, data, from, tag, where);
  const Call call{"recv", data.count, data.dtype, -1, "", "", where};
  return start_message(group_, Request::Kind::recv, call, data, {}, from, tag);
}

YOTTA_INLINE void Communicator::broadcast(Data data, int root, CommOptions options,
                                          Where where) const {
  start_broadcast(group_, Mode::blocking, data, root, options, where).wait();
}
YOTTA_INLINE Work Communicator::broadcast_async(Data data, int root, CommOptions options,
                                                Where where) const {
  return start_broadcast(group_, Mode::async, data, root, options, where);
}
YOTTA_INLINE void Communicator::reduce(Data data, int root, ReduceOp op, CommOptions options,
                                       Where where) const {
  start_reduce(group_, Mode::blocking, data, root, op, options, where).wait();
}
YOTTA_INLINE Work Communicator::reduce_async(Data data, int root, ReduceOp op, CommOptions options,
                                             Where where) const {
  return start_reduce(group_, Mode::async, data, root, op, options, where);
}
YOTTA_INLINE void Communicator::all_reduce(Data data, ReduceOp op, CommOptions options,
                                           Where where) const {
  start_all_reduce(group_, Mode::blocking, data, op, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_reduce_async(Data data, ReduceOp op, CommOptions options,
                                                 Where where) const {
  return start_all_reduce(group_, Mode::async, data, op, options, where);
}
YOTTA_INLINE void Communicator::reduce_scatter(Data out, ConstData in, ReduceOp op,
                                               CommOptions options, Where where) const {
  start_reduce_scatter(group_, Mode::blocking, out, in, op, options, where).wait();
}
YOTTA_INLINE Work Communicator::reduce_scatter_async(Data out, ConstData in, ReduceOp op,
                                                     CommOptions options, Where where) const {
  return start_reduce_scatter(group_, Mode::async, out, in, op, options, where);
}
YOTTA_INLINE void Communicator::all_gather(Data out, ConstData in, CommOptions options,
                                           Where where) const {
  start_all_gather(group_, Mode::blocking, out, in, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_gather_async(Data out, ConstData in, CommOptions options,
                                                 Where where) const {
  return start_all_gather(group_, Mode::async, out, in, options, where);
}
YOTTA_INLINE void Communicator::all_to_all(Data out, ConstData in, CommOptions options,
                                           Where where) const {
  start_all_to_all(group_, Mode::blocking, out, in, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_to_all_async(Data out, ConstData in, CommOptions options,
                                                 Where where) const {
  return start_all_to_all(group_, Mode::async, out, in, options, where);
}
YOTTA_INLINE void Communicator::all_to_all_v(Data out, Counts out_counts, ConstData in,
                                             Counts in_counts, CommOptions options,
                                             Where where) const {
  start_all_to_all_v(group_, Mode::blocking, out, out_counts, in, in_counts, options, where).wait();
}
YOTTA_INLINE Work Communicator::all_to_all_v_async(Data out, Counts out_counts, ConstData in,
                                                   Counts in_counts, CommOptions options,
                                                   Where where) const {
  return start_all_to_all_v(group_, Mode::async, out, out_counts, in, in_counts, options, where);
}
YOTTA_INLINE void Communicator::gather(Data out, ConstData in, int root, CommOptions options,
                                       Where where) const {
  start_gather(group_, Mode::blocking, out, in, root, options, where).wait();
}
YOTTA_INLINE Work Communicator::gather_async(Data out, ConstData in, int root, CommOptions options,
                                             Where where) const {
  return start_gather(group_, Mode::async, out, in, root, options, where);
}
YOTTA_INLINE void Communicator::scatter(Data out, ConstData in, int root, CommOptions options,
                                        Where where) const {
  start_scatter(group_, Mode::blocking, out, in, root, options, where).wait();
}
YOTTA_INLINE Work Communicator::scatter_async(Data out, ConstData in, int root, CommOptions options,
                                              Where where) const {
  return start_scatter(group_, Mode::async, out, in, root, options, where);
}
YOTTA_INLINE void Communicator::barrier(CommOptions options, Where where) const {
  start_barrier(group_, Mode::blocking, options, where).wait();
}
YOTTA_INLINE Work Communicator::barrier_async(CommOptions options, Where where) const {
  return start_barrier(group_, Mode::async, options, where);
}

YOTTA_INLINE void Communicator::collective(const char* name, const CollectiveBody& body,
                                           Where where) const {
  start_collective(group_, Mode::blocking, name, body, where).wait();
}
YOTTA_INLINE Work Communicator::collective_async(const char* name, const CollectiveBody& body,
                                                 Where where) const {
  return start_collective(group_, Mode::async, name, body, where);
}

YOTTA_INLINE Communicator Communicator::split(int color, int key, Where where) const {
  return Communicator(split_group(group_, color, key, where));
}
YOTTA_INLINE Communicator Communicator::mirrored(std::vector<int> chips, Where where) const {
  return Communicator(mirror_group(group_, std::move(chips), where));
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
