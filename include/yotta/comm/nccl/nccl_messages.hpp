// Messages of NCCL ranks. NCCL's have no tags: between two ranks the next one sent meets the next one received, whatever
// they are. So an envelope goes ahead of each, over the transport beneath, and the receiver acts on it:
//
//     rank 0   send tag 7, send tag 8            rank 1   recv tag 8 (waits)        recv tag 7 (later)
//                envelope 7 ───────────────►              nobody wants 7 yet: received into a buffer
//                envelope 8 ───────────────►              the recv that waits
//                                                                                   copied from that buffer
//
// A rank's messages to itself are copies on its device.
// Cost: a small message over the host beside each of NCCL's; a buffer for what comes before it is wanted.
// Contract: both sides have the same count and type (Mismatch otherwise).
#pragma once

#include <list>

#include "yotta/comm/matching/message_matcher.hpp"
#include "yotta/comm/nccl/nccl_lanes.hpp"
#include "yotta/comm/waiting/world_state.hpp"

namespace yotta {

class NcclMessages {
 public:
  NcclMessages(int rank, int size, std::shared_ptr<NcclLetters> letters, NcclLanes& lanes)
      : rank_(rank), letters_(std::move(letters)), lanes_(lanes), own_(size) {}
  ~NcclMessages() { end(); }
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  // `group`: the name of the request's group, the same on all ranks.
  void post(Request& request, uint64_t group) {
    request.owner = rank_;
    if (request.peer == rank_) return post_to_self(request);
    if (request.kind == Request::Kind::recv) {
      incoming_[request.peer].wanted.push_back({&request, group, lanes_.computed()});
      return advance(request.peer);
    }
    letters_->send(request.peer, envelope, NcclLetters::text_of(describe(request, group)),
                   *request.call);
    NcclLane& lane = lanes_.between(rank_, request.peer);
    lanes_.add(lane,
               {&request, [data = request.data](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                  nccl.send(handle, data, 1);
                }});
  }
  // Looks for what has come.
  void advance() {
    for (auto& [from, incoming] : incoming_) advance(from);
  }
  // Takes back what NCCL has not been given; false: it has.
  bool withdraw(Request& request) {
    own_.remove(request);
    auto& wanted = incoming_[request.peer].wanted;
    return std::erase_if(wanted, [&](const Wanted& one) { return one.request == &request; }) > 0 ||
           request.peer == rank_;
  }
  // The first that has come before it was wanted, and still is not; empty: none.
  std::string find_unreceived() const {
    for (const auto& [from, incoming] : incoming_)
      for (const Early& each : incoming.early)
        return describe_unreceived(from, data_of(each).nbytes(), each.envelope.tag, rank_);
    return "";
  }
  // No message is expected any more, and NCCL is through with those that have come.
  void end() {
    for (auto& [from, incoming] : incoming_)
      if (incoming.next != nullptr) letters_->take_back(*incoming.next);
    incoming_.clear();
  }
  // The letter that a receive waits for: for it the transport beneath can say who does not send. Null: for none.
  Request* waits_for(const Request& request) {
    const auto incoming = incoming_.find(request.peer);
    if (incoming == incoming_.end() || incoming->second.next == nullptr) return nullptr;
    for (const Wanted& one : incoming->second.wanted)
      if (one.request == &request) return &incoming->second.next->request;
    return nullptr;
  }

 private:
  static constexpr int64_t envelope = 1;  // the letter's kind
  struct Envelope {
    uint64_t group;
    int64_t tag, count;
    DType dtype;
    char where[96];  // of the send
  };
  struct Wanted {
    Request* request;
    uint64_t group;
    NcclLibrary::Mark begin;  // what was computed when it was asked for
  };
  // A message that came before it was wanted.
  struct Early {
    Envelope envelope;
    std::unique_ptr<Buffer> buffer;
    bool here = false;           // NCCL has taken it
    NcclLibrary::Mark mark = 0;  // behind it
  };
  struct Incoming {
    std::deque<Wanted> wanted;    // in the order of the calls
    std::list<Early> early;       // in the order of the sends
    NcclLetters::LetterPtr next;  // the next envelope, on its way
  };

  Envelope describe(const Request& request, uint64_t group) const {
    Envelope made{group, request.tag, request.data.count, request.data.dtype, {}};
    at(request.call->where).copy(made.where, sizeof made.where - 1);
    return made;
  }
  static bool belongs(const Envelope& sent, const Wanted& wanted) {
    return sent.group == wanted.group && sent.tag == wanted.request->tag;
  }

  void post_to_self(Request& request) {
    Request* const other = own_.find(request);
    if (other == nullptr) return own_.add(request);
    own_.remove(*other);
    const bool sends = request.kind == Request::Kind::send;
    const Request &from = sends ? request : *other, &to = sends ? *other : request;
    compare(describe(from, 0), to);
    copy_data(from.data, to.data);
    request.done = other->done = true;
  }

  void advance(int from) {
    Incoming& incoming = incoming_[from];
    NcclLane& lane = lanes_.between(from, rank_);
    lanes_.pump(lane);
    hand_out(incoming);
    while (!incoming.wanted.empty()) {
      if (incoming.next == nullptr)
        incoming.next = letters_->expect(from, envelope, *incoming.wanted.front().request->call);
      if (!letters_->has_come(*incoming.next)) return;
      const auto sent = NcclLetters::read<Envelope>(incoming.next->text);
      incoming.next.reset();
      take(incoming, lane, sent);
      hand_out(incoming);
    }
  }
  // The next message goes to whom it belongs to, or into a buffer.
  void take(Incoming& incoming, NcclLane& lane, const Envelope& sent) {
    const auto is_its = [&](const Wanted& one) {  // and none that came earlier is
      return belongs(sent, one) && find_early(incoming, one) == incoming.early.end();
    };
    const auto found = std::find_if(incoming.wanted.begin(), incoming.wanted.end(), is_its);
    if (found != incoming.wanted.end()) {
      const Wanted its = *found;
      incoming.wanted.erase(found);
      compare(sent, *its.request);
      return receive(lane, its.request, its.request->data, {}, its.begin);
    }
    Early& early = incoming.early.emplace_back();
    early.envelope = sent;
    const MemoryScope kind(MemoryKind::buffers);
    early.buffer = std::make_unique<Buffer>(sent.count * bytes_of(sent.dtype), Device::cuda);
    receive(lane, nullptr, data_of(early), [&early](NcclLibrary::Mark mark) {
      early.here = true;
      early.mark = mark;
    });
  }
  void receive(NcclLane& lane, Request* request, Data into,
               std::function<void(NcclLibrary::Mark)> then, NcclLibrary::Mark begin = 0) {
    lanes_.add(lane, {request,
                      [into](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                        nccl.recv(handle, into, 0);
                      },
                      std::move(then), begin});
  }
  // Early messages to those who want them by now.
  void hand_out(Incoming& incoming) {
    for (size_t i = 0; i < incoming.wanted.size();) {
      const Wanted one = incoming.wanted[i];
      const auto found = find_early(incoming, one);
      if (found == incoming.early.end() || !found->here) {
        ++i;
        continue;
      }
      const Early early = std::move(*found);
      incoming.early.erase(found);
      incoming.wanted.erase(incoming.wanted.begin() + static_cast<std::ptrdiff_t>(i));
      compare(early.envelope, *one.request);
      lanes_.see(early.mark);
      copy_data(data_of(early), one.request->data);
      one.request->done = true;
    }
  }
  static std::list<Early>::iterator find_early(Incoming& incoming, const Wanted& wanted) {
    return std::find_if(incoming.early.begin(), incoming.early.end(),
                        [&](const Early& each) { return belongs(each.envelope, wanted); });
  }
  static Data data_of(const Early& early) {
    return {static_cast<std::byte*>(early.buffer->data()), early.envelope.count,
            early.envelope.dtype, Device::cuda};
  }
  static void compare(const Envelope& sent, const Request& recv) {
    if (sent.count == recv.data.count && sent.dtype == recv.data.dtype) return;
    throw Mismatch(recv.call->where,
                   fmt::format("both sides of a message must name the same count and type.\n"
                               "  rank {} sends {} {} at {}\n  rank {} receives {} at {}",
                               recv.peer, sent.count, name(sent.dtype), sent.where, recv.owner,
                               describe_data(recv), at(recv.call->where)));
  }

  int rank_;
  std::shared_ptr<NcclLetters> letters_;
  NcclLanes& lanes_;
  MessageMatcher own_;
  std::map<int, Incoming> incoming_;  // by sender
};

}  // namespace yotta
