// Messages: a send or a recv of one rank, from posting to the ledger.
//
//     Messages both(group, call, "send", tag);   a send and a recv that are in flight together
//     both.send(out, to);                        posted; in the ledger; stamped by the clock
//     both.recv(in, from);                       posted
//     both.wait();                               done; the recv is in the ledger; the clock waits
//                                                for its stamp
//
// If an exception passes, what is not done is withdrawn: nobody writes into a buffer that has gone.
#pragma once

#include "yotta/comm/engine.hpp"

namespace yotta {

// A communicator as seen by one of its ranks.
struct Group {
  std::shared_ptr<Engine> engine;
  int number = 0;
  int rank = 0;              // in the group
  std::vector<int> members;  // world ranks
  int64_t collectives = 0;   // how many were called
  int64_t splits = 0;

  int size() const { return static_cast<int>(members.size()); }
  int world(int group_rank) const { return members[static_cast<size_t>(group_rank)]; }
  // Lanes of the clock: one for the collectives of a group, one for each peer and direction.
  int lane() const { return -1 - number; }
};

// The lane of point-to-point messages to (or from) a rank of the world.
inline int lane_of(const Request& request) {
  return 1 + 2 * request.peer + (request.kind == Request::Kind::recv ? 1 : 0);
}
inline constexpr int compute_lane = 0;
inline void join_lane(int waiting, int other) {
  if (CostSink* clock = context().clock) clock->wait(waiting, clock->now(other));
}

// Counts a message when it is posted (a send) or done (a recv), and tells the clock.
inline void charge_send(Request& request, std::string_view label, int lane) {
  RankContext& self = context();
  self.ledger.sent(label, 1, request.data.nbytes());
  if (self.clock != nullptr)
    request.stamp = self.clock->send({request.peer, request.data.nbytes(), lane});
}
inline void charge_recv(const Request& request, std::string_view label, int lane) {
  RankContext& self = context();
  self.ledger.received(label, 1, request.data.nbytes());
  if (self.clock != nullptr)
    self.clock->receive({request.peer, request.data.nbytes(), lane}, request.stamp);
}

inline void fill(Request& request, Request::Kind kind, const Group& group, const Call& call,
                 Data data, int peer, int64_t tag) {
  request.kind = kind;
  request.group = group.number;
  request.peer = group.world(peer);
  request.tag = tag;
  request.data = data;
  request.call = &call;
}
// Sends only read their data; a Request has one field for both.
inline Data writable(ConstData data) {
  return {const_cast<std::byte*>(data.bytes), data.count, data.dtype};
}

class Messages {
 public:
  // tag < 0: messages of a collective, which run on its lane of the clock.
  Messages(const Group& group, const Call& call, std::string_view label, int64_t tag)
      : group_(group), call_(call), label_(label), tag_(tag) {}
  ~Messages() {
    for (Request* request : {&send_, &recv_})
      if (request->call != nullptr && !request->done) transport().withdraw(*request);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void send(ConstData data, int to) {
    fill(send_, Request::Kind::send, group_, call_, writable(data), to, tag_);
    if (is_user()) join_lane(lane_of(send_), compute_lane);
    charge_send(send_, label_, is_user() ? lane_of(send_) : group_.lane());
    transport().post(send_);
  }
  void recv(Data data, int from) {
    fill(recv_, Request::Kind::recv, group_, call_, data, from, tag_);
    transport().post(recv_);
  }
  void wait() {
    Waiting waiting{&call_, call_.where, {}, -1};
    if (send_.call != nullptr) waiting.requests[0] = &send_;
    if (recv_.call != nullptr) waiting.requests[1] = &recv_;
    group_.engine->wait(waiting);
    if (recv_.call != nullptr)
      charge_recv(recv_, label_, is_user() ? lane_of(recv_) : group_.lane());
    if (!is_user()) return;
    for (const Request* request : waiting.requests)
      if (request != nullptr) join_lane(compute_lane, lane_of(*request));
  }

 private:
  Transport& transport() { return group_.engine->transport(); }
  bool is_user() const { return tag_ >= 0; }  // not a collective's: on a lane of its own
  const Group& group_;
  const Call& call_;
  std::string_view label_;
  int64_t tag_;
  Request send_, recv_;
};

}  // namespace yotta
