// TcpInbox: where the receives of a rank and the messages that come to it find each other.
//
//     posted     [from 1, tag 7, group 0]  [from 2, tag 7, group 0]     asked for, not here yet
//     arrivals   [from 1, tag 8, group 0: 12 bytes]                     here, not asked for yet
//
// Whoever comes second finds the other. Both lists are in order, and so is a connection: of one (group, sender, tag) the
// first message goes to the first receive. Plain lists: a rank has few receives and few unasked messages at a time.
#pragma once

#include "yotta/comm/tcp/tcp_mesh.hpp"

namespace yotta {

// A message, or the offer of a large one.
struct TcpArrival {
  int from = 0;
  TcpFrame header = {};
  std::string bytes = {};  // of an offer: none
};

// Do both sides name the same count and type?
inline bool fits(const TcpFrame& header, const Request& recv) {
  return recv.data.count == header.count && recv.data.dtype == header.dtype;
}

class TcpInbox {
 public:
  // A new receive, in the group with this id. Returns what has come for it already; else it waits.
  std::optional<TcpArrival> post(Request& recv, uint64_t group) {
    const Posted posted{&recv, group};
    const auto found = std::find_if(
        arrivals_.begin(), arrivals_.end(),
        [&](const TcpArrival& each) { return belong(each.from, each.header, posted); });
    if (found == arrivals_.end()) {
      posted_.push_back(posted);
      return {};
    }
    TcpArrival arrival = std::move(*found);
    arrivals_.erase(found);
    return arrival;
  }
  // The receive that this message is for, which waits no longer; null: there is none. With `if_it_fits` it stays
  // where it is if its count or type is another.
  Request* take(int from, const TcpFrame& header, bool if_it_fits) {
    const auto found = std::find_if(posted_.begin(), posted_.end(),
                                    [&](const Posted& each) { return belong(from, header, each); });
    if (found == posted_.end() || (if_it_fits && !fits(header, *found->recv))) return nullptr;
    Request* const recv = found->recv;
    posted_.erase(found);
    return recv;
  }
  // Nobody has asked for it yet.
  void keep(TcpArrival arrival) { arrivals_.push_back(std::move(arrival)); }
  void remove(const Request& recv) {
    std::erase_if(posted_, [&](const Posted& each) { return each.recv == &recv; });
  }
  void clear() {
    posted_.clear();
    arrivals_.clear();
  }

  // The first message that nobody has asked for; null: there is none.
  const TcpArrival* first_kept() const { return arrivals_.empty() ? nullptr : &arrivals_.front(); }
  // Has the peer sent the user something with another tag than this receive's, or in another group than `group`, which
  // is its? Empty if not.
  std::string find_other_tag(const Request& wanted, uint64_t group) const {
    for (const TcpArrival& each : arrivals_) {
      if (each.from != wanted.peer || each.header.tag < 0) continue;
      const bool same_group = each.header.group == group;
      if (same_group && each.header.tag == wanted.tag) continue;  // the next of its kind
      return fmt::format("rank {} has sent tag {}, but rank {} waits for tag {}{}", each.from,
                         each.header.tag, wanted.owner, wanted.tag,
                         same_group ? "" : " in another communicator");
    }
    return "";
  }

 private:
  struct Posted {
    Request* recv;
    uint64_t group;
  };
  static bool belong(int from, const TcpFrame& header, const Posted& posted) {
    return posted.recv->peer == from && posted.recv->tag == header.tag &&
           posted.group == header.group;
  }

  std::deque<Posted> posted_;
  std::deque<TcpArrival> arrivals_;
};

}  // namespace yotta
