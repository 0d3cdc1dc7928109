// Messages: a send or a recv of one rank, from posting to the ledger.
//
//     Messages both(group, call, "send");    a send and a recv that are in flight together
//     both.send(out, to, tag);               posted; counted in the ledger; stamped by the clock
//     both.recv(in, from, tag);              posted
//     both.wait();                           done; the recv is counted, and the clock waits for its stamp
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
  int lane() const { return number + 1; }  // of its collectives; lane 0 is point to point
};

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
  Messages(const Group& group, const Call& call, std::string_view label, int lane)
      : group_(group), call_(call), label_(label), lane_(lane) {}
  ~Messages() {
    for (Request* request : {&send_, &recv_})
      if (request->call != nullptr && !request->done) transport().withdraw(*request);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void send(ConstData data, int to, int64_t tag) {
    fill(send_, Request::Kind::send, group_, call_, writable(data), to, tag);
    charge_send(send_, label_, lane_);
    transport().post(send_);
  }
  void recv(Data data, int from, int64_t tag) {
    fill(recv_, Request::Kind::recv, group_, call_, data, from, tag);
    transport().post(recv_);
  }
  void wait() {
    Waiting waiting{&call_, {}, -1};
    if (send_.call != nullptr) waiting.requests[0] = &send_;
    if (recv_.call != nullptr) waiting.requests[1] = &recv_;
    group_.engine->wait(waiting);
    if (recv_.call != nullptr) charge_recv(recv_, label_, lane_);
  }

 private:
  Transport& transport() { return group_.engine->transport(); }
  const Group& group_;
  const Call& call_;
  std::string_view label_;
  int lane_;
  Request send_, recv_;
};

}  // namespace yotta
