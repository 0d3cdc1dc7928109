// Messages: a send or a recv of one rank, from posting to the ledger.
//
//     Messages both(group, call, "send", tag);   a send and a recv that are in flight together
//     both.send(out, to);                        posted; in the ledger; stamped by the clock
//     both.recv(in, from);                       posted
//     both.wait();                               done; the recv is in the ledger; the clock waits
//                                                for its stamp, and for what was sent to leave
//
// If an exception passes, what is not done is withdrawn: nobody writes into a buffer that has gone.
#pragma once

#include "yotta/comm/engine/engine.hpp"
#include "yotta/machine/group_network.hpp"
#include "yotta/machine/trace.hpp"

namespace yotta {

// A communicator as seen by one of its ranks.
struct Group {
  std::shared_ptr<Engine> engine;
  int number = 0;
  int rank = 0;              // in the group
  std::vector<int> members;  // world ranks
  std::vector<int> images;   // of a mirrored communicator: the chips of its ranks; else empty
  int64_t collectives = 0;   // how many were called
  int64_t splits = 0;

  std::string_view name =
      "world";  // kept until the program ends (Communicator::named), or own_name
  std::string own_name;
  int lane = -1;  // of the clock, for its collectives: its rank's first, second, ... communicator
  mutable std::shared_ptr<const GroupNetwork> network;  // network_of()

  Group() = default;
  ~Group() {
    if (number > 0) engine->transport().close_group(number);  // 0 is the world
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int size() const { return static_cast<int>(members.size()); }
  int world(int group_rank) const { return members[static_cast<size_t>(group_rank)]; }
  bool is_mirrored() const { return !images.empty(); }
};

// What the group sees of the machine that its clock describes; one level without cost where none
// is.
inline std::shared_ptr<const GroupNetwork> network_of(const Group& group) {
  CostSink* const clock = context().clock;
  if (group.network == nullptr && clock != nullptr) {
    std::vector<int> peers = group.is_mirrored() ? group.images : group.members;
    for (int& peer : peers) peer += group.is_mirrored() ? first_image : 0;
    group.network = clock->network(peers);
  }
  if (group.network != nullptr) return group.network;
  return std::make_shared<const GroupNetwork>(GroupNetwork{group.size()});
}

// Which ranks an algorithm tells apart, where one rank stands for all on several levels: those of
// its own node from others; each from each; none, and then all wait for the slowest link.
enum class Apart : uint8_t { none, nodes, ranks };
struct ToldApart {
  Apart what = Apart::none;
  int node = 1;  // ranks of one

  bool is_outside(int peer) const { return what == Apart::nodes && peer >= node; }
};

// The chip at the other end of a message of a mirrored group, over whose link it is timed.
inline int image_of(const Group& group, int peer, ToldApart apart) {
  size_t image = static_cast<size_t>(peer);
  if (peer > 0 && apart.what != Apart::ranks && !network_of(group)->inner.empty())
    image = apart.what == Apart::none || apart.is_outside(peer)
                ? group.images.size() - 1
                : static_cast<size_t>(apart.node) - 1;
  return group.images[image];
}

// The other end of a message, and the lane of point-to-point messages to (or from) it, on the
// clock.
inline int clock_peer(const Request& request) {
  return request.image < 0 ? request.peer : first_image + request.image;
}
inline int lane_of(const Request& request) {
  return message_lane(clock_peer(request), request.kind == Request::Kind::recv);
}
inline void join_lane(int waiting, int other) {
  if (CostSink* clock = context().clock) clock->wait(waiting, clock->now(other));
}

// What a message is a part of; collectives have tags below 0.
inline Communication communication_of(const Request& request) {
  if (request.tag >= 0) return Communication::message;
  for (const Communication kind :
       {Communication::broadcast, Communication::all_reduce, Communication::reduce_scatter,
        Communication::all_gather, Communication::all_to_all})
    if (std::string_view(request.call->operation).starts_with(name(kind))) return kind;
  return Communication::collective;
}

inline MessageCost message_cost(const Request& request, std::string_view label, int lane) {
  return {clock_peer(request),  request.data.nbytes(),    lane, label,
          request.communicator, communication_of(request)};
}
// Counts a message when it is posted (a send) or done (a recv), and tells the clock.
inline void charge_send(Request& request, std::string_view label, int lane) {
  RankContext& self = context();
  self.ledger.sent(label, 1, request.data.nbytes());
  if (self.clock != nullptr) request.stamp = self.clock->send(message_cost(request, label, lane));
}
// A lane is busy until what it sends has left. (Not at once: a send_recv does both side by side.)
inline void finish_send(const Request& request, int lane) {
  if (CostSink* clock = context().clock) clock->wait(lane, request.stamp);
}
inline void charge_recv(const Request& request, std::string_view label, int lane) {
  RankContext& self = context();
  self.ledger.received(label, 1, request.data.nbytes());
  if (self.clock != nullptr) self.clock->receive(message_cost(request, label, lane), request.stamp);
}

// A request to or from `peer`, a rank of `group`; `call` must live as long as the request.
inline void fill(Request& request, Request::Kind kind, const Group& group, const Call& call,
                 Data data, int peer, int64_t tag, ToldApart apart = {}) {
  request.kind = kind;
  request.group = group.number;
  request.communicator = group.name;
  request.peer = group.world(peer);
  request.tag = tag;
  request.data = data;
  request.call = &call;
  if (!group.is_mirrored()) return;
  request.image = image_of(group, peer, apart);
  if (apart.what == Apart::nodes) request.tag = 2 * tag - (apart.is_outside(peer) ? 1 : 0);
  if (data.count > 0 && data.device != Device::meta)
    fail(
        call.where,
        "{} on a mirrored communicator takes tensors on Device::meta: what the images of this rank "
        "hold is not known",
        call.operation);
}
// Sends only read their data; a Request has one field for both.
inline Data writable(ConstData data) {
  return {const_cast<std::byte*>(data.bytes), data.count, data.dtype, data.device};
}

class Messages {
 public:
  // tag < 0: messages of a collective, which run on its lane of the clock.
  Messages(const Group& group, const Call& call, std::string_view label, int64_t tag,
           ToldApart apart = {})
      : group_(group), call_(call), label_(label), tag_(tag), apart_(apart) {}
  ~Messages() {
    for (Request* request : {&send_, &recv_})
      if (request->call != nullptr && !request->done) transport().withdraw(*request);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void send(ConstData data, int to) {
    fill(send_, Request::Kind::send, group_, call_, writable(data), to, tag_, apart_);
    if (is_user()) join_lane(lane_of(send_), compute_lane);
    charge_send(send_, label_, lane_for(send_));
    transport().post(send_);
  }
  void recv(Data data, int from) {
    fill(recv_, Request::Kind::recv, group_, call_, data, from, tag_, apart_);
    transport().post(recv_);
  }
  void wait() {
    wait_for_data();
    if (recv_.call != nullptr) charge_recv(recv_, label_, lane_for(recv_));
    if (send_.call != nullptr) finish_send(send_, lane_for(send_));
    if (!is_user()) return;
    for (const Request* request : {&send_, &recv_})
      if (request->call != nullptr) join_lane(compute_lane, lane_of(*request));
  }
  // Several sends and receives of one collective, posted before, that are in flight together.
  static void wait_all(std::deque<Messages>& together) {
    std::vector<Arrival> arrivals;
    for (Messages& each : together) {
      each.wait_for_data();
      const int lane = each.group_.lane;
      context().ledger.received(each.label_, 1, each.recv_.data.nbytes());
      arrivals.push_back({message_cost(each.recv_, each.label_, lane), each.recv_.stamp});
    }
    if (CostSink* clock = context().clock) clock->receive_all(arrivals);
    for (Messages& each : together) finish_send(each.send_, each.group_.lane);
  }

 private:
  void wait_for_data() {
    Waiting waiting{&call_, call_.where, {}, -1};
    if (send_.call != nullptr) waiting.requests[0] = &send_;
    if (recv_.call != nullptr) waiting.requests[1] = &recv_;
    group_.engine->wait(waiting);
  }

  Transport& transport() { return group_.engine->transport(); }
  bool is_user() const { return tag_ >= 0; }  // not a collective's: on a lane of its own
  int lane_for(const Request& request) const { return is_user() ? lane_of(request) : group_.lane; }
  const Group& group_;
  const Call& call_;
  std::string_view label_;
  int64_t tag_;
  ToldApart apart_;
  Request send_, recv_;
};

}  // namespace yotta
