// Caller: the way of every call, from the user's line to the algorithm. Point to point here, the
// collectives in calls.hpp.
//
//     enter     is the rank still able to communicate? move on what is in flight
//     check     ranks, tags, addresses, counts: an Error at the user's line
//     run       blocking: on this stack.  async: in a fiber, and return a Work
#pragma once

#include "yotta/comm/engine/buffer_guard.hpp"
#include "yotta/comm/engine/collective.hpp"
#include "yotta/comm/work.hpp"

namespace yotta {

enum class Mode : uint8_t { blocking, async };

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

class Caller {
 public:
  // Null for a rank that is no member. It must outlive this.
  explicit Caller(const std::shared_ptr<Group>& of) : group(of) {}

  const std::shared_ptr<Group>& group;

  Group& group_or_fail(Where where) const {
    if (group == nullptr)
      fail(where,
           "this communicator is empty: its rank gave split() a negative color; ask is_member()");
    return *group;
  }

  void send(ConstData data, int to, int tag, Where where) const {
    Group& self = enter_message(data, to, tag, where);
    const Call call{"send", data.count, data.dtype, -1, "", "", where};
    if (self.engine->options().buffered_sends) return send_copy(self, call, data, to, tag);
    Messages message(self, call, "send", tag);
    message.send(data, to);
    message.wait();
  }
  void recv(Data data, int from, int tag, Where where) const {
    Group& self = enter_message(data, from, tag, where);
    const Call call{"recv", data.count, data.dtype, -1, "", "", where};
    Messages message(self, call, "send", tag);
    message.recv(data, from);
    message.wait();
  }
  void send_recv(ConstData outgoing, int to, Data incoming, int from, int tag, Where where) const {
    Group& self = enter_message(outgoing, to, tag, where);
    expect_data(incoming, "incoming", where);
    expect_rank(from, self.size(), "from", where);
    expect_apart(outgoing, incoming, where);
    const Call call{"send_recv", outgoing.count, outgoing.dtype, -1, "", "", where};
    Messages both(self, call, "send", tag);
    both.send(outgoing, to);
    both.recv(incoming, from);
    both.wait();
  }
  Work send_async(ConstData data, int to, int tag, Where where) const {
    enter_message(data, to, tag, where);
    const Call call{"send", data.count, data.dtype, -1, "", "", where};
    return start_message(group, Request::Kind::send, call, {}, data, to, tag);
  }
  Work recv_async(Data data, int from, int tag, Where where) const {
    enter_message(data, from, tag, where);
    const Call call{"recv", data.count, data.dtype, -1, "", "", where};
    return start_message(group, Request::Kind::recv, call, data, {}, from, tag);
  }

  // Runs a collective: body(collective, out, in), with out and in as given or, when buffers are
  // checked, aside.
  template <class Body>
  Work launch(Mode mode, const Call& call, const char* label, Data out, ConstData in,
              Body body) const {
    Group& self = *group;
    if (label == nullptr) label = call.operation;
    auto collective = std::make_shared<Collective>(group, self.collectives++, call, label);
    if (mode == Mode::blocking) {
      if (const auto before = self.engine->last(self.number))
        self.engine->wait(*before, call.where);
      collective->run([&](Collective& c) { body(c, out, in); });
      collective->join_clock();
      return {};
    }
    auto watch = std::make_shared<BufferGuard>(self.engine->options().check_buffers, out, in);
    auto job = std::make_shared<InFlightOp>();
    job->call = call;
    job->group = self.number;
    job->body = [collective, watch, body] {
      collective->run([&](Collective& c) { body(c, watch->out(), watch->in()); });
    };
    job->finish = [collective, watch] {
      collective->join_clock();
      watch->finish(collective->call());
    };
    self.engine->start(job);
    return {self.engine, job};
  }

 private:
  Group& enter_message(ConstData data, int peer, int tag, Where where) const {
    Group& self = group_or_fail(where);
    self.engine->enter(where);
    expect_data(data, "data", where);
    expect_rank(peer, self.size(), "the other rank", where);
    if (tag < 0) fail(where, "a tag is 0 or more, not {}", tag);
    return self;
  }
  // A send that the rank's own code does not wait for.
  static void charge_user_send(Request& request) {
    const int lane = lane_of(request);
    join_lane(lane, compute_lane);
    charge_send(request, "send", lane);
    finish_send(request, lane);
  }
  // The copy of a buffered send.
  struct Copy {
    std::shared_ptr<void> owner;
    std::byte* bytes;
  };
  static Copy copy_of(ConstData data) {
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
  static void send_copy(const Group& self, const Call& call, ConstData data, int to, int tag) {
    auto send = std::make_unique<InFlightOp>();
    send->call = call;
    const Copy copy = copy_of(data);
    const Data copied(copy.bytes, data.count, data.dtype, data.device);
    fill(send->request, Request::Kind::send, self, send->call, copied, to, tag);
    charge_user_send(send->request);
    self.engine->post_detached(std::move(send), copy.owner);
  }
  static Work start_message(const std::shared_ptr<Group>& group, Request::Kind kind,
                            const Call& call, Data in, ConstData out, int peer, int tag) {
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
};

}  // namespace yotta
