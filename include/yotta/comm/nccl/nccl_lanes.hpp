// NCCL lanes: NCCL communicators, each with a stream and a queue of tasks for it, in order; and the
// messages on them.
//
//     two lanes of a group    its collectives     each made at its first one: reductions have a
//                                                 lane of their own, so that FSDP's gathers and
//                                                 reduce-scatters overlap
//     lane from rank a to b   a's messages to b   so that none waits behind a message the other way
//
// How a lane is made. By an id: a member makes one and sends it to the others, and all join. A
// group that is split from one whose lane is open already is split from that lane by NCCL itself
// (ncclCommSplit, NCCL 2.18), which needs no id; all members of the parent call it, also those that
// are in no part.
//
// Nothing blocks the host: lanes are joined, and connect, while the rank goes on, and their tasks
// wait meanwhile. A task starts after what the rank had computed when it was queued. What the rank
// computes after wait() starts after the task. Both are marks on streams (CUDA's events). Not
// sooner: attention to the keys that are here would wait for the keys that are on their way.
//
//     compute stream   ─ grad 1 ─┬─ grad 2 ──────── wait() ─ step ─►
//     lane's stream              └─ all_reduce 1 ────┘
//
// One order. A collective's kernel waits on the GPU for those of the other ranks, and a GPU holds
// only so many. If rank 0 launched those of two groups in another order than rank 1, each might
// wait for what the other has no room for. So a rank gives NCCL the collectives and splits of all
// its lanes in the order in which the program called them, one when NCCL has taken the one before;
// programs that call them in one order on all ranks never stand still.
//
// Splits. NCCL writes the new communicator from a thread of its own, some time after the call. So a
// part's lane is kept until its parent is ready again, also on a rank that is in no part, and is
// given nothing before the communicator is there.
//
// Messages. NCCL's have no tags: between two ranks the next one sent meets the next one received,
// whatever they are. So an envelope goes ahead of each, over the transport beneath, and the
// receiver acts on it (message_matcher.hpp):
//
//     rank 0  send tag 7, send tag 8      rank 1   recv tag 8 (waits)       recv tag 7 (later)
//              envelope 7 ─────────────►           unexpected: received into a buffer
//              envelope 8 ─────────────►           the recv that waits
//                                                                           copied from that buffer
//
// A rank's messages to itself are copies on its device.
// Cost: a small message over the host beside each of NCCL's; a buffer for each unexpected message.
// Contract: both sides have the same count and type (Mismatch otherwise).
// Reference: NVIDIA NCCL documentation, "Creating a communicator", "ncclCommSplit", "Fault
// tolerance".
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <vector>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/matching/message_matcher.hpp"
#include "yotta/comm/nccl/bootstrap.hpp"
#include "yotta/comm/nccl/nccl_library.hpp"
#include "yotta/comm/waiting/control_plane.hpp"
#include "yotta/core/system/accelerator.hpp"

namespace yotta {

// What a lane does next.
struct NcclTask {
  // Done when NCCL has taken the task; its handle is then a mark after it. Null: no request.
  Request* request = nullptr;
  std::function<void(NcclLibrary&, NcclLibrary::Handle)> start;
  // When NCCL has taken it, with the mark, if there is no request.
  std::function<void(NcclLibrary::Mark)> then = {};
  NcclLibrary::Mark begin = 0;  // what was computed when it was queued
};

struct NcclLane {
  std::vector<int> members = {};  // world ranks
  int64_t kind = 0;               // of the bootstrap message with its id
  NcclLane* parent = nullptr;     // the lane that it is split from
  NcclLibrary::Handle handle = nullptr;
  NcclBootstrap::MessagePtr id = nullptr;  // on its way
  std::deque<NcclTask> queue = {};
  bool takes_turns = false;       // it has collectives
  bool busy = false;              // the first of the queue has been given to NCCL
  std::vector<Request*> leaving;  // detached, and taken by NCCL: done when the device is
};

class NcclLanes {
 public:
  NcclLanes(int rank, std::shared_ptr<NcclBootstrap> bootstrap, std::shared_ptr<NcclLibrary> nccl,
            Where where)
      : rank_(rank),
        bootstrap_(std::move(bootstrap)),
        nccl_(std::move(nccl)),
        call_{"the id of an NCCL communicator", 128, DType::u8, -1, "", "", where} {
    no_request_.call = &call_;
  }

  // The lane of the messages from one rank to another.
  NcclLane& between(int from, int to) {
    NcclLane& lane = lanes_[{from, to, -1}];
    if (lane.members.empty()) lane.members = {from, to};
    return lane;
  }
  // A lane of a group's collectives; `id` is the same on all its members.
  NcclLane& of_group(int group, const std::vector<int>& members, uint64_t id, bool reduces) {
    NcclLane& lane = lanes_[{0, reduces ? 1 : 0, group}];
    if (!lane.members.empty()) return lane;
    lane.members = members;
    lane.takes_turns = true;
    lane.kind = 2 + static_cast<int64_t>(2 * (id % 8000)) + (reduces ? 1 : 0);  // 0, 1: messages'
    return lane;
  }
  // One of them, if a collective of the group has made it, or null. After any collective of the
  // group all members agree.
  NcclLane* find_group(int group) {
    for (const int reduces : {0, 1})
      if (const auto found = lanes_.find({0, reduces, group}); found != lanes_.end())
        return &found->second;
    return nullptr;
  }

  void add(NcclLane& lane, NcclTask task) {
    if (task.begin == 0) task.begin = computed();
    lane.queue.push_back(std::move(task));
    if (lane.takes_turns) turns_.push_back(&lane);
    pump(lane);
  }
  // Has the library splits of its own? Then all members of the parent call this; `part`: null if
  // this rank is in none.
  bool can_split() const { return nccl_->can_split(); }
  void split(NcclLane& parent, int color, int key, NcclLane* part) {
    if (part != nullptr) part->parent = &parent;
    const auto made = std::make_shared<NcclLibrary::Handle>(nullptr);
    add(parent, {nullptr,
                 [=](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                   *made = nccl.split(handle, color, key);
                   if (part != nullptr) part->handle = *made;
                 },
                 [this, made, part](NcclLibrary::Mark mark) {
                   nccl_->forget(mark);
                   if (part == nullptr) nccl_->leave(*made, false);
                 }});
  }

  // Advances a lane as far as possible without waiting, and those whose turn comes before.
  void pump(NcclLane& lane) {
    while (lane.takes_turns && !turns_.empty() && turns_.front() != &lane) {
      NcclLane& first = *turns_.front();
      with_root_cause(first, [&] { move_on(first); });
      if (!turns_.empty() && turns_.front() == &first) break;
    }
    with_root_cause(lane, [&] { move_on(lane); });
  }
  // Advances all lanes. Returns a request that NCCL has not taken yet, or null. `leaving`: also one
  // that the device has not completed yet.
  const Request* pump_all(bool leaving = false) {
    const Request* last = nullptr;
    for (auto& [name, lane] : lanes_) {
      pump(lane);
      for (const NcclTask& task : lane.queue)
        last = task.request != nullptr ? task.request : &no_request_;
      if (leaving && !lane.leaving.empty()) last = lane.leaving.back();
    }
    return last;
  }
  // After all that the rank was asked to compute so far, kernels that are only gathered included.
  NcclLibrary::Mark computed() {
    launch_gathered(Where::current());
    return nccl_->computed();
  }
  // The rank's computation continues after a mark.
  void see(NcclLibrary::Mark mark) {
    if (mark == 0) return;
    nccl_->compute_after(mark);
    nccl_->forget(mark);
  }
  // The lane that a request waits on; null: none.
  NcclLane* find(const Request& request) {
    for (auto& [name, lane] : lanes_)
      if (std::find(lane.leaving.begin(), lane.leaving.end(), &request) != lane.leaving.end() ||
          std::any_of(lane.queue.begin(), lane.queue.end(),
                      [&](const NcclTask& task) { return task.request == &request; }))
        return &lane;
    return nullptr;
  }
  // A task that NCCL has been given cannot be withdrawn: then its lane is aborted.
  void withdraw(NcclLane& lane, const Request& request) {
    const bool waits = std::erase(lane.leaving, &request) == 0 &&
                       !(lane.busy && lane.queue.front().request == &request);
    if (!waits) abort_lane(lane);
    std::erase_if(lane.queue, [&](const NcclTask& task) { return task.request == &request; });
    while (lane.takes_turns &&
           std::count(turns_.begin(), turns_.end(), &lane) > std::ssize(lane.queue))
      turns_.erase(std::prev(std::find(turns_.rbegin(), turns_.rend(), &lane).base()));
  }

  // Throws errors of operations in flight.
  void look() {
    for (auto& [name, lane] : lanes_)
      if (has_communicator(lane)) with_root_cause(lane, [&] { nccl_->ready(lane.handle); });
  }
  // All ranks end well. The lanes are left when they are ready again.
  void finalize() {
    for (auto& [name, lane] : lanes_)
      if (has_communicator(lane)) with_root_cause(lane, [&] { nccl_->finalize(lane.handle); });
  }
  bool are_ready() {
    bool all = true;
    for (auto& [name, lane] : lanes_)
      if (has_communicator(lane))
        with_root_cause(lane, [&] { all = nccl_->ready(lane.handle) && all; });
    return all;
  }
  // `aborts`: a rank has failed, and NCCL is given no more tasks.
  void leave_all(bool aborts) noexcept {
    aborted_ = aborted_ || aborts;
    for (auto& [name, lane] : lanes_) {
      if (lane.id != nullptr) bootstrap_->cancel(*lane.id);
      if (aborts)
        abort_lane(lane);
      else if (has_communicator(lane))  // else NCCL may still write it
        nccl_->leave(std::exchange(lane.handle, nullptr), false);
    }
  }

 private:
  // An error of NCCL may come from a rank that has failed and aborted its lanes: then that rank is
  // named.
  template <class Code>
  void with_root_cause(const NcclLane& lane, Code code) {
    const Where where = call_site(lane);
    try {
      code();
    } catch (const CommError&) {
      bootstrap_->check_peers(where);
      throw;
    }
  }
  // The call that the lane is working on.
  Where call_site(const NcclLane& lane) const {
    for (const NcclTask& task : lane.queue)
      if (task.request != nullptr) return task.request->call->where;
    return lane.leaving.empty() ? call_.where : lane.leaving.front()->call->where;
  }
  void move_on(NcclLane& lane) {
    if (aborted_) return;
    if (!lane.queue.empty() && !try_join(lane)) return;
    while (!lane.queue.empty() && nccl_->ready(lane.handle)) {
      if (lane.takes_turns && turns_.front() != &lane) break;
      if (!std::exchange(lane.busy, !lane.busy)) {
        nccl_->lane_after(lane.handle, lane.queue.front().begin);
        nccl_->forget(lane.queue.front().begin);
        lane.queue.front().start(*nccl_, lane.handle);
        continue;
      }
      const NcclTask task = std::move(lane.queue.front());
      lane.queue.pop_front();
      if (lane.takes_turns) turns_.pop_front();
      finish(lane, task);
    }
    std::erase_if(lane.leaving, [&](Request* request) {
      if (!nccl_->has_passed(request->handle)) return false;
      nccl_->forget(std::exchange(request->handle, 0));
      return request->done = true;
    });
  }
  void finish(NcclLane& lane, const NcclTask& task) {
    const NcclLibrary::Mark mark = nccl_->mark(lane.handle);
    if (task.request == nullptr) return task.then ? task.then(mark) : nccl_->forget(mark);
    Request& request = *task.request;
    if (request.is_detached) {
      request.handle = mark;
      return lane.leaving.push_back(&request);
    }
    request.handle = mark;
    request.done = true;
  }
  bool has_communicator(const NcclLane& lane) {
    return lane.handle != nullptr && nccl_->is_made(lane.handle);
  }
  // Makes the lane's communicator once its id is here, or its parent has been split. True if it is
  // there. The first member makes the id and sends it.
  bool try_join(NcclLane& lane) {
    if (has_communicator(lane)) return true;
    if (lane.parent != nullptr) with_root_cause(*lane.parent, [&] { move_on(*lane.parent); });
    if (lane.parent != nullptr || lane.handle != nullptr) return has_communicator(lane);
    const auto self = std::find(lane.members.begin(), lane.members.end(), rank_);
    NcclLibrary::Id id;
    if (self == lane.members.begin()) {
      id = nccl_->new_id();
      for (size_t i = 1; i < lane.members.size(); ++i)
        bootstrap_->send(lane.members[i], lane.kind, id, call_);
    } else {
      if (lane.id == nullptr) lane.id = bootstrap_->receive(lane.members[0], lane.kind, call_);
      if (!bootstrap_->has_arrived(*lane.id)) return false;
      id = lane.id->payload;
    }
    lane.handle = nccl_->join(id, static_cast<int>(lane.members.size()),
                              static_cast<int>(self - lane.members.begin()));
    return has_communicator(lane);
  }
  void abort_lane(NcclLane& lane) noexcept {
    if (lane.handle != nullptr) nccl_->leave(std::exchange(lane.handle, nullptr), true);
    lane.busy = false;
  }

  int rank_;
  std::shared_ptr<NcclBootstrap> bootstrap_;
  std::shared_ptr<NcclLibrary> nccl_;
  std::map<std::array<int, 3>, NcclLane> lanes_;  // by {from, to, -1} or {0, reduces, group}
  std::deque<NcclLane*> turns_;  // of the collectives and splits that NCCL has not taken
  bool aborted_ = false;
  Call call_;
  Request no_request_;  // stands for a task without a request
};

// The messages of one rank.
class NcclMessages {
 public:
  NcclMessages(int rank, int size, std::shared_ptr<NcclBootstrap> bootstrap, NcclLanes& lanes)
      : rank_(rank), bootstrap_(std::move(bootstrap)), lanes_(lanes), to_self_(size) {}
  ~NcclMessages() { end(); }
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  // `group`: the id of the request's group, the same on all ranks.
  void post(Request& request, uint64_t group) {
    request.owner = rank_;
    if (request.peer == rank_) return post_to_self(request);
    if (request.kind == Request::Kind::recv) return post_recv(request, group);
    bootstrap_->send(request.peer, envelope_kind, NcclBootstrap::pack(describe(request, group)),
                     *request.call);
    NcclLane& lane = lanes_.between(rank_, request.peer);
    lanes_.add(lane,
               {&request, [data = request.data](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                  nccl.send(handle, data, 1);
                }});
  }
  // Takes what has come.
  void advance() {
    for (auto& [from, incoming] : incoming_) advance(from);
  }
  // Completes the receives whose messages NCCL has taken into buffers by now. True if there was
  // one.
  bool hand_out() {
    bool any = false;
    for (auto& [from, incoming] : incoming_) any = hand_out(incoming) || any;
    return any;
  }
  // Withdraws a request that NCCL has not been given; false: it has.
  bool withdraw(Request& request) {
    to_self_.remove(request);
    Incoming& incoming = incoming_[request.peer];
    const auto bound = std::find_if(incoming.bound.begin(), incoming.bound.end(),
                                    [&](const Bound& each) { return each.recv == &request; });
    if (bound != incoming.bound.end()) {
      const Envelope envelope = bound->message->sent.envelope(request.peer);
      incoming.matcher.put_back(envelope, std::move(bound->message));
      incoming.bound.erase(bound);
      return true;
    }
    if (!incoming.matcher.remove_posted(request)) return request.peer == rank_;
    request.handle = 0;
    return true;
  }
  // Describes the first unexpected message; empty: there is none.
  std::string find_unreceived() const {
    for (const auto& [from, incoming] : incoming_)
      if (const auto* const first = incoming.matcher.first_unexpected())
        return describe_unreceived(from, data_of(*first->message).nbytes(), first->envelope.tag,
                                   rank_);
    return "";
  }
  // No message is expected any more, and NCCL is done with those that have come.
  void end() {
    for (auto& [from, incoming] : incoming_)
      if (incoming.next != nullptr) bootstrap_->cancel(*incoming.next);
    incoming_.clear();
  }
  // The bootstrap message that a receive waits for: the transport beneath can say which rank does
  // not send it. Null: none.
  Request* waits_for(const Request& request) {
    const auto incoming = incoming_.find(request.peer);
    if (incoming == incoming_.end() || incoming->second.next == nullptr) return nullptr;
    return incoming->second.matcher.is_posted(request) ? &incoming->second.next->request : nullptr;
  }

 private:
  static constexpr int64_t envelope_kind = 1;  // of the bootstrap message
  struct SentEnvelope {
    uint64_t group;
    int64_t tag, count;
    DType dtype;
    char where[96];  // of the send

    Envelope envelope(int from) const { return {group, from, tag}; }
  };
  // A message that has no receive yet, or had none when it came.
  struct Unexpected {
    SentEnvelope sent;
    std::unique_ptr<Buffer> buffer = nullptr;
    bool is_here = false;        // NCCL has taken it
    NcclLibrary::Mark mark = 0;  // after it
  };
  using UnexpectedPtr = std::unique_ptr<Unexpected>;
  // A receive and its message, which is on its way into a buffer.
  struct Bound {
    Request* recv;
    UnexpectedPtr message;
  };
  // From one sender. While a receive is posted its handle is a mark: what was computed before it.
  struct Incoming {
    MessageMatcher<UnexpectedPtr> matcher = {};
    std::list<Bound> bound = {};
    NcclBootstrap::MessagePtr next = nullptr;  // the next envelope, on its way
  };

  SentEnvelope describe(const Request& request, uint64_t group) const {
    SentEnvelope made{group, request.tag, request.data.count, request.data.dtype, {}};
    at(request.call->where).copy(made.where, sizeof made.where - 1);
    return made;
  }

  void post_to_self(Request& request) {
    Request* const other = to_self_.find(request);
    if (other == nullptr) return to_self_.add(request);
    to_self_.remove(*other);
    const bool sends = request.kind == Request::Kind::send;
    const Request &from = sends ? request : *other, &to = sends ? *other : request;
    compare(describe(from, 0), to);
    copy_data(from.data, to.data);
    request.done = other->done = true;
  }
  void post_recv(Request& recv, uint64_t group) {
    Incoming& incoming = incoming_[recv.peer];
    const Envelope envelope{group, recv.peer, recv.tag};
    if (const UnexpectedPtr* const found = incoming.matcher.find_unexpected(envelope)) {
      compare((*found)->sent, recv);
      incoming.bound.push_back({&recv, *incoming.matcher.take_unexpected(envelope)});
    } else {
      recv.handle = lanes_.computed();
      incoming.matcher.add_posted(envelope, recv);
    }
    advance(recv.peer);
  }

  void advance(int from) {
    Incoming& incoming = incoming_[from];
    NcclLane& lane = lanes_.between(from, rank_);
    lanes_.pump(lane);
    hand_out(incoming);
    while (const Request* const first = incoming.matcher.first_posted()) {
      if (incoming.next == nullptr)
        incoming.next = bootstrap_->receive(from, envelope_kind, *first->call);
      if (!bootstrap_->has_arrived(*incoming.next)) return;
      const auto sent = NcclBootstrap::read<SentEnvelope>(incoming.next->payload);
      incoming.next.reset();
      take(incoming, from, lane, sent);
      hand_out(incoming);
    }
  }
  // NCCL receives the next message into the array of its receive, or into a buffer.
  void take(Incoming& incoming, int from, NcclLane& lane, const SentEnvelope& sent) {
    const Envelope envelope = sent.envelope(from);
    if (Request* const recv = incoming.matcher.find_posted(envelope)) {
      incoming.matcher.remove_posted(envelope, *recv);
      const NcclLibrary::Mark begin = std::exchange(recv->handle, 0);
      compare(sent, *recv);
      return receive(lane, recv, recv->data, {}, begin);
    }
    auto message = std::make_unique<Unexpected>(Unexpected{.sent = sent});
    const MemoryScope kind(MemoryKind::buffers);
    message->buffer = std::make_unique<Buffer>(sent.count * bytes_of(sent.dtype), Device::cuda);
    Unexpected& kept = *message;
    incoming.matcher.add_unexpected(envelope, std::move(message));
    receive(lane, nullptr, data_of(kept), [&kept](NcclLibrary::Mark mark) {
      kept.is_here = true;
      kept.mark = mark;
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
  bool hand_out(Incoming& incoming) {
    const auto is_here = [](const Bound& each) { return each.message->is_here; };
    bool any = false;
    for (;;) {
      const auto found = std::find_if(incoming.bound.begin(), incoming.bound.end(), is_here);
      if (found == incoming.bound.end()) return any;
      const Bound one = std::move(*found);
      incoming.bound.erase(
          found);  // before see(), which may advance the transport and come here again
      lanes_.see(one.message->mark);
      copy_data(data_of(*one.message), one.recv->data);
      one.recv->done = any = true;
    }
  }
  static Data data_of(const Unexpected& message) {
    return {static_cast<std::byte*>(message.buffer->data()), message.sent.count, message.sent.dtype,
            Device::cuda};
  }
  static void compare(const SentEnvelope& sent, const Request& recv) {
    if (sent.count == recv.data.count && sent.dtype == recv.data.dtype) return;
    throw Mismatch(recv.call->where,
                   describe_different_sizes(
                       fmt::format("{} {} at {}", sent.count, name(sent.dtype), sent.where), recv,
                       recv.owner));
  }

  int rank_;
  std::shared_ptr<NcclBootstrap> bootstrap_;
  NcclLanes& lanes_;
  RequestMatcher to_self_;
  std::map<int, Incoming> incoming_;  // by sender
};

}  // namespace yotta
