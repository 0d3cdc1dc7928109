// What a send or a receive does before its message is posted, and what it leaves behind.
//
//     enter     is the rank still able to communicate? move on what is in flight
//     check     ranks, tags, addresses: an Error at the user's line
//     post      the message, with a copy of the data if sends are buffered
#pragma once

#include "yotta/comm/engine/buffer_guard.hpp"
#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/work.hpp"

namespace yotta {

// Checks of arguments.
inline void expect_data(ConstData data, const char* what, Where where) {
  if (data.count < 0) fail(where, "{} has a negative count, {}", what, data.count);
  if (data.count > 0 && data.bytes == nullptr && data.device != Device::meta)
    fail(where, "{} has {} elements but no address", what, data.count);
}
inline void expect_rank(int rank, int size, const char* what, Where where) {
  if (rank < 0 || rank >= size)
    fail(where, "{} is {}, but the communicator has ranks 0 to {}", what, rank, size - 1);
}

// A communicator's group, or an error if its rank is no member.
inline Group& group_or_fail(const std::shared_ptr<Group>& group, Where where) {
  if (group == nullptr)
    fail(where,
         "this communicator is empty: its rank gave split() a negative color; ask is_member()");
  return *group;
}

inline Group& enter_message(const std::shared_ptr<Group>& group, ConstData data, int peer, int tag,
                            Where where) {
  Group& self = group_or_fail(group, where);
  self.engine->enter(where);
  expect_data(data, "data", where);
  expect_rank(peer, self.size(), "the other rank", where);
  if (tag < 0) fail(where, "a tag is 0 or more, not {}", tag);
  return self;
}

// A send that the rank's own code does not wait for.
inline void charge_user_send(Request& request) {
  const int lane = lane_of(request);
  join_lane(lane, compute_lane);
  charge_send(request, "send", lane);
  finish_send(request, lane);
}

// The copy of a buffered send.
struct SendCopy {
  std::shared_ptr<void> owner;
  std::byte* bytes;
};
inline SendCopy copy_of(ConstData data) {
  if (data.device == Device::cuda) {
    const MemoryScope kind(MemoryKind::buffers);
    const auto memory = std::make_shared<Buffer>(data.nbytes(), data.device);
    const Data to(static_cast<std::byte*>(memory->data()), data.count, data.dtype, data.device);
    copy_data(data, to);
    return {memory, to.bytes};
  }
  const int64_t bytes = data.device == Device::meta ? 0 : data.nbytes();
  const auto memory = std::make_shared<std::vector<std::byte>>(data.bytes, data.bytes + bytes);
  return {memory, memory->data()};
}

// A buffered send: the message lives in a copy until somebody takes it.
inline void send_copy(const Group& self, const Call& call, ConstData data, int to, int tag) {
  auto send = std::make_unique<InFlightOp>();
  send->call = call;
  const SendCopy copy = copy_of(data);
  const Data copied(copy.bytes, data.count, data.dtype, data.device);
  fill(send->request, Request::Kind::send, self, send->call, copied, to, tag);
  charge_user_send(send->request);
  self.engine->post_detached(std::move(send), copy.owner);
}

inline Work start_message(const std::shared_ptr<Group>& group, Request::Kind kind, const Call& call,
                          Data in, ConstData out, int peer, int tag) {
  const Group& self = *group;
  auto watch = std::make_shared<BufferGuard>(self.engine->options().check_buffers, in, out);
  auto job = std::make_shared<InFlightOp>();
  job->call = call;
  const bool sends = kind == Request::Kind::send;
  fill(job->request, kind, self, job->call, sends ? writable(watch->in()) : watch->out(), peer,
       tag);
  const int lane = lane_of(job->request);
  if (sends) charge_user_send(job->request);
  // The group stays open for as long as the job lives.
  job->finish = [watch, job = job.get(), sends, lane, group] {
    if (sends) {
      finish_send(job->request, compute_lane);  // until it has left; later messages go on
    } else {
      charge_recv(job->request, "send", lane);
      join_lane(compute_lane, lane);
    }
    watch->finish(job->call);
  };
  self.engine->transport().post(job->request);
  return {self.engine, job};
}

}  // namespace yotta
