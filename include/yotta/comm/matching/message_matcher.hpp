// MessageMatcher: finds the receive that a message belongs to, on the rank that receives.
//
//     posted       receives without a message    [from 1, tag 7, group 0]  [from 2, tag 7, group 0]
//     unexpected   messages without a receive    [from 1, tag 8, group 0: 12 bytes]
//
// A message belongs to a receive if group, sender and tag are equal: they are its envelope.
// Whichever side comes second finds the other. Both lists are sorted by envelope, then in order of
// arrival. Of one envelope there are either posted receives or unexpected messages, so the first
// message goes to the first receive, and messages do not overtake each other.
//
//     threads    RequestMatcher: both sides are requests in one memory
//     sockets    an unexpected message is its header and bytes
//     NCCL       an unexpected message is a buffer on the device
//
// Cost: a search in a tree, log n steps for n receives or messages, however many of them lie there.
// There are no locks here; thread_transport.hpp holds one.
// Reference: MPI 3.1, section 3.5; MPI libraries call the two lists posted and unexpected queue.
#pragma once

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <optional>

#include "yotta/comm/engine/transport.hpp"
#include "yotta/comm/failures.hpp"

namespace yotta {

// What decides which receive a message belongs to.
struct Envelope {
  uint64_t group = 0;  // the same number on both sides
  int from = 0;        // world rank of the sender
  int64_t tag = 0;     // as Request::tag

  auto operator<=>(const Envelope&) const = default;
};

// Message: what a transport keeps of a message that has no receive yet.
template <class Message>
class MessageMatcher {
 public:
  struct Unexpected {
    Envelope envelope;
    Message message;
  };

  // The first receive of this envelope; null if there is none. It stays posted.
  Request* find_posted(const Envelope& envelope) const {
    const auto found = first_of(posted_, envelope);
    return found == posted_.end() ? nullptr : found->second;
  }
  void add_posted(const Envelope& envelope, Request& recv) {
    posted_.emplace(Place{envelope, ++added_}, &recv);
  }
  // False: it was not posted.
  bool remove_posted(const Envelope& envelope, const Request& recv) {
    return remove(posted_, envelope, [&](const Request* each) { return each == &recv; });
  }
  // The same where its envelope is not known: a search through all.
  bool remove_posted(const Request& recv) {
    return std::erase_if(posted_, [&](const auto& each) { return each.second == &recv; }) > 0;
  }
  bool is_posted(const Request& recv) const {
    return std::any_of(posted_.begin(), posted_.end(),
                       [&](const auto& each) { return each.second == &recv; });
  }
  // The receive that was posted first; null if there is none.
  Request* first_posted() const {
    const auto found = first_added(posted_);
    return found == posted_.end() ? nullptr : found->second;
  }

  // The first message of this envelope; null if there is none. It stays in the list.
  const Message* find_unexpected(const Envelope& envelope) const {
    const auto found = first_of(unexpected_, envelope);
    return found == unexpected_.end() ? nullptr : &found->second.message;
  }
  std::optional<Message> take_unexpected(const Envelope& envelope) {
    const auto found = first_of(unexpected_, envelope);
    if (found == unexpected_.end()) return {};
    return std::move(unexpected_.extract(found).mapped().message);
  }
  void add_unexpected(const Envelope& envelope, Message message) {
    unexpected_.emplace(Place{envelope, ++added_}, Unexpected{envelope, std::move(message)});
  }
  // Its receive was withdrawn: the next receive of this envelope gets it.
  void put_back(const Envelope& envelope, Message message) {
    unexpected_.emplace(Place{envelope, -++added_}, Unexpected{envelope, std::move(message)});
  }
  void remove_unexpected(const Envelope& envelope, const Message& message) {
    remove(unexpected_, envelope, [&](const Unexpected& each) { return each.message == message; });
  }
  // The message that came first; null if there is none.
  const Unexpected* first_unexpected() const {
    const auto found = first_added(unexpected_);
    return found == unexpected_.end() ? nullptr : &found->second;
  }
  // A message that the user sent from the same rank with another tag, or in another group; null if
  // there is none.
  const Unexpected* find_other_tag(const Envelope& wanted) const {
    for (const auto& [place, each] : unexpected_)
      if (each.envelope.from == wanted.from && each.envelope.tag >= 0 && each.envelope != wanted)
        return &each;
    return nullptr;
  }

  void clear() {
    posted_.clear();
    unexpected_.clear();
  }

 private:
  // Where one lies in a list: behind those of its envelope that were added before.
  struct Place {
    Envelope envelope;
    int64_t added;

    auto operator<=>(const Place&) const = default;
  };
  template <class List>
  static auto first_of(const List& list, const Envelope& envelope) {
    const auto found = list.lower_bound({envelope, std::numeric_limits<int64_t>::min()});
    return found != list.end() && found->first.envelope == envelope ? found : list.end();
  }
  // Of all envelopes.
  template <class List>
  static auto first_added(const List& list) {
    return std::min_element(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.first.added < b.first.added;
    });
  }
  template <class List, class IsIt>
  static bool remove(List& list, const Envelope& envelope, IsIt is_it) {
    for (auto each = first_of(list, envelope);
         each != list.end() && each->first.envelope == envelope; ++each)
      if (is_it(each->second)) return list.erase(each), true;
    return false;
  }

  std::map<Place, Request*> posted_;
  std::map<Place, Unexpected> unexpected_;
  int64_t added_ = 0;
};

// --- error messages ---
// "4 f32"
inline std::string describe_data(const Request& request) {
  return fmt::format("{} {}{}", request.data.count, name(request.data.dtype),
                     request.data.device == Device::meta ? " on meta" : "");
}
// `sent`: what the other side sends, "5 f32 at a.cpp:7".
inline std::string describe_different_sizes(const std::string& sent, const Request& recv,
                                            int receiver) {
  return fmt::format(
      "both sides of a message must name the same count and type.\n"
      "  rank {} sends {}\n  rank {} receives {} at {}",
      recv.peer, sent, receiver, describe_data(recv), at(recv.call->where));
}
// `place`: where it was sent, " at a.cpp:7", or nothing if that is not known.
inline std::string describe_other_tag(const Envelope& sent, const std::string& place,
                                      const Envelope& wanted, int receiver) {
  return fmt::format("rank {} has sent tag {}{}, but rank {} waits for tag {}{}", sent.from,
                     sent.tag, place, receiver, wanted.tag,
                     sent.group == wanted.group ? "" : " in another communicator");
}

// The sends and receives of all ranks of one process, where both sides of a message are requests.
class RequestMatcher {
 public:
  explicit RequestMatcher(int ranks) : receivers_(static_cast<size_t>(ranks)) {}

  // The other side of `request`; null if it has not been posted.
  Request* find(const Request& request) const {
    const Matcher& matcher = of(request);
    if (is_send(request)) return matcher.find_posted(envelope_of(request));
    Request* const* const send = matcher.find_unexpected(envelope_of(request));
    return send == nullptr ? nullptr : *send;
  }
  void add(Request& request) {
    if (is_send(request))
      of(request).add_unexpected(envelope_of(request), &request);
    else
      of(request).add_posted(envelope_of(request), request);
  }
  void remove(Request& request) {
    if (is_send(request))
      of(request).remove_unexpected(envelope_of(request), &request);
    else
      of(request).remove_posted(envelope_of(request), request);
  }

  // Says what the peer of a waiting receive has sent instead; empty if nothing.
  std::string find_other_tag(const Request& recv) const {
    const auto* const other = of(recv).find_other_tag(envelope_of(recv));
    if (other == nullptr) return "";
    return describe_other_tag(other->envelope, " at " + at(other->message->call->where),
                              envelope_of(recv), recv.owner);
  }
  // Says which message nobody received, at the end of a run; empty if there is none.
  std::string find_unreceived() const {
    for (const Matcher& matcher : receivers_) {
      if (matcher.first_unexpected() == nullptr) continue;
      const Request& send = *matcher.first_unexpected()->message;
      return fmt::format(
          "rank {} sent {} with tag {} to rank {}, which has returned without receiving it; the "
          "send is at {}",
          send.owner, describe_data(send), send.tag, send.peer, at(send.call->where));
    }
    return "";
  }

 private:
  using Matcher = MessageMatcher<Request*>;

  static bool is_send(const Request& request) { return request.kind == Request::Kind::send; }
  static Envelope envelope_of(const Request& request) {
    return {static_cast<uint64_t>(request.group), is_send(request) ? request.owner : request.peer,
            request.tag};
  }
  static size_t receiver_of(const Request& request) {
    return static_cast<size_t>(is_send(request) ? request.peer : request.owner);
  }
  const Matcher& of(const Request& request) const { return receivers_[receiver_of(request)]; }
  Matcher& of(const Request& request) { return receivers_[receiver_of(request)]; }

  std::vector<Matcher> receivers_;  // by world rank
};

}  // namespace yotta
