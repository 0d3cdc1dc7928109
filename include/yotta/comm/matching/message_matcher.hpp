// Letter boxes: where a send and a recv between thread ranks find each other.
//
//     rank 1's box     sends to rank 1   [from 0, tag 7] [from 2, tag 7] [from 0, tag 8]
//                      recvs of rank 1   (none: it has not asked yet)
//
//     rank 1 posts recv(from 0, tag 8): the first send that belongs to it is the third; out it comes
//
// A box holds only what has not found its other half, so of one (group, sender, receiver, tag) it holds
// sends or recvs, never both; and the first in the box is the first that was posted: messages do not
// overtake each other. No locks here: threads.hpp holds one.
#pragma once

#include <algorithm>
#include <deque>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/engine/transport.hpp"

namespace yotta {

// "4 f32"
inline std::string describe_data(const Request& request) {
  return fmt::format("{} {}{}", request.data.count, name(request.data.dtype),
                     request.data.device == Device::meta ? " on meta" : "");
}

class MessageMatcher {
 public:
  explicit MessageMatcher(int ranks) : boxes_(static_cast<size_t>(ranks)) {}

  // The other half of `request`, if it is there, or null.
  Request* find(const Request& request) const {
    const std::deque<Request*>& others = box(request, other_kind(request));
    const auto found = std::find_if(others.begin(), others.end(), [&](const Request* other) {
      return other->group == request.group && other->tag == request.tag &&
             other->owner == request.peer && other->peer == request.owner;
    });
    return found == others.end() ? nullptr : *found;
  }
  void add(Request& request) { box(request, request.kind).push_back(&request); }
  void remove(Request& request) { std::erase(box(request, request.kind), &request); }

  // A message for who waits in `recv` that is there, but with another tag or in another group.
  std::string find_other_tag(const Request& recv) const {
    for (const Request* send : box(recv, Request::Kind::send)) {
      if (send->owner != recv.peer || send->tag < 0) continue;
      return fmt::format("rank {} has sent tag {} at {}, but rank {} waits for tag {}{}",
                         send->owner, send->tag, at(send->call->where), recv.owner, recv.tag,
                         send->group == recv.group ? "" : " in another communicator");
    }
    return "";
  }

  // A message that nobody received, for the end of a run; empty if there is none.
  std::string find_unreceived() const {
    for (const Box& box : boxes_)
      for (const Request* send : box.sends)
        return fmt::format(
            "rank {} sent {} with tag {} to rank {}, which has returned without "
            "receiving it; the send is at {}",
            send->owner, describe_data(*send), send->tag, send->peer, at(send->call->where));
    return "";
  }

 private:
  struct Box {
    std::deque<Request*> sends;  // to this rank
    std::deque<Request*> recvs;  // of this rank
  };
  static Request::Kind other_kind(const Request& request) {
    return request.kind == Request::Kind::send ? Request::Kind::recv : Request::Kind::send;
  }
  // Sends and recvs both lie in the receiver's box.
  const std::deque<Request*>& box(const Request& request, Request::Kind kind) const {
    const int receiver = request.kind == Request::Kind::send ? request.peer : request.owner;
    const Box& box = boxes_[static_cast<size_t>(receiver)];
    return kind == Request::Kind::send ? box.sends : box.recvs;
  }
  std::deque<Request*>& box(const Request& request, Request::Kind kind) {
    return const_cast<std::deque<Request*>&>(std::as_const(*this).box(request, kind));
  }

  std::vector<Box> boxes_;
};

}  // namespace yotta
