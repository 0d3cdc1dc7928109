// Lanes: NCCL communicators, each with a stream and a queue of what is to be done on it, in order.
//
//     lane of a group             its collectives          made at the first one
//     lane from rank a to b       a's messages to b        so that none waits behind one the other way
//
// How a lane is made. By an id: a member makes one and sends it to the others, and all join. A group that is split
// from one whose lane is open already is split from that lane by NCCL itself (ncclCommSplit, NCCL 2.18), which needs no
// id; all members of the parent call it, also those that are in no part.
//
// Nothing blocks the host: lanes are joined, and connect, while the rank goes on, and their tasks wait meanwhile. What a
// lane does begins behind what the rank had computed when it was asked for, and what the rank computes after wait() comes
// behind it, both by marks on streams (CUDA's events). Not sooner: attention to the keys that are here would wait for
// those that are on their way.
//
//     compute stream   ─ grad 1 ─┬─ grad 2 ──────── wait() ─ step ─►
//     lane's stream              └─ all_reduce 1 ────┘
//
// Reference: NVIDIA NCCL documentation, "Creating a communicator", "ncclCommSplit", "Fault tolerance".
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/nccl/bootstrap.hpp"
#include "yotta/comm/nccl/nccl_library.hpp"

namespace yotta {

// What a lane does next.
struct NcclTask {
  // Done when NCCL has taken it, its handle then a mark behind it; null: nobody's.
  Request* request = nullptr;
  std::function<void(NcclLibrary&, NcclLibrary::Handle)> start;
  // When NCCL has taken it, with the mark, if there is no request.
  std::function<void(NcclLibrary::Mark)> then = {};
  NcclLibrary::Mark begin = 0;  // what was computed when it was asked for
};

struct NcclLane {
  std::vector<int> members = {};  // world ranks
  int64_t kind = 0;               // of the letter with its id
  NcclLane* parent = nullptr;     // is split from it
  NcclLibrary::Handle handle = nullptr;
  NcclLetters::LetterPtr id = nullptr;  // on its way
  std::deque<NcclTask> queue = {};
  bool busy = false;              // the first of the queue has been given to NCCL
  NcclLibrary::Mark unseen = 0;   // behind its last collective, if nobody has waited for it
  std::vector<Request*> leaving;  // detached, and taken by NCCL: done when the device is
};

class NcclLanes {
 public:
  NcclLanes(int rank, std::shared_ptr<NcclLetters> letters, std::shared_ptr<NcclLibrary> nccl,
            Where where)
      : rank_(rank),
        letters_(std::move(letters)),
        nccl_(std::move(nccl)),
        call_{"the id of an NCCL communicator", 128, DType::u8, -1, "", "", where} {
    ours_.call = &call_;
  }

  // Of the messages from one rank to another.
  NcclLane& between(int from, int to) {
    NcclLane& lane = lanes_[{from, to, -1}];
    if (lane.members.empty()) lane.members = {from, to};
    return lane;
  }
  // Of a group's collectives; `name` is the same on all its members.
  NcclLane& of_group(int group, const std::vector<int>& members, uint64_t name) {
    NcclLane& lane = lanes_[{0, 0, group}];
    if (!lane.members.empty()) return lane;
    lane.members = members;
    lane.kind = 2 + static_cast<int64_t>(name % 16000);  // 0: a messages' lane, 1: envelopes
    return lane;
  }
  // The same if a collective of the group has made it, or null. All members agree behind any collective of the group.
  NcclLane* find_group(int group) {
    const auto found = lanes_.find({0, 0, group});
    return found == lanes_.end() ? nullptr : &found->second;
  }

  void add(NcclLane& lane, NcclTask task) {
    if (task.begin == 0) task.begin = nccl_->computed();
    lane.queue.push_back(std::move(task));
    pump(lane);
  }
  // Has the library splits of its own? Then all members of the parent call this; `part`: null if this rank is in none.
  bool can_split() const { return nccl_->can_split(); }
  void split(NcclLane& parent, int color, int key, NcclLane* part) {
    if (part != nullptr) part->parent = &parent;
    add(parent, {nullptr, [color, key, part](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                   const NcclLibrary::Handle made = nccl.split(handle, color, key);
                   if (part != nullptr) part->handle = made;
                 }});
  }

  // Moves a lane on as far as it goes without waiting.
  void pump(NcclLane& lane) {
    by_name(lane, [&] { move_on(lane); });
  }
  // All of them; a request that NCCL has not taken yet, or null. `leaving`: that has not left yet.
  const Request* pump_all(bool leaving = false) {
    const Request* last = nullptr;
    for (auto& [name, lane] : lanes_) {
      pump(lane);
      for (const NcclTask& task : lane.queue)
        last = task.request != nullptr ? task.request : &ours_;
      if (leaving && !lane.leaving.empty()) last = lane.leaving.back();
    }
    return last;
  }
  NcclLibrary::Mark computed() { return nccl_->computed(); }
  // The rank's computation goes on behind a mark; behind the lane's last collective.
  void see(NcclLibrary::Mark mark) {
    if (mark == 0) return;
    nccl_->compute_after(mark);
    nccl_->forget(mark);
  }
  void see(NcclLane& lane) { see(std::exchange(lane.unseen, 0)); }
  // Where a request waits; null: nowhere.
  NcclLane* find(const Request& request) {
    for (auto& [name, lane] : lanes_)
      if (std::find(lane.leaving.begin(), lane.leaving.end(), &request) != lane.leaving.end() ||
          std::any_of(lane.queue.begin(), lane.queue.end(),
                      [&](const NcclTask& task) { return task.request == &request; }))
        return &lane;
    return nullptr;
  }
  // What NCCL has been given cannot be taken back: then its lane is aborted.
  void withdraw(NcclLane& lane, const Request& request) {
    const bool waits = std::erase(lane.leaving, &request) == 0 &&
                       !(lane.busy && lane.queue.front().request == &request);
    if (!waits) give_up(lane);
    std::erase_if(lane.queue, [&](const NcclTask& task) { return task.request == &request; });
  }

  // Throws what went wrong in flight.
  void look() {
    for (auto& [name, lane] : lanes_)
      if (lane.handle != nullptr) by_name(lane, [&] { nccl_->ready(lane.handle); });
  }
  // `aborts`: a rank has failed, and nothing is given to NCCL any more.
  void leave_all(bool aborts) noexcept {
    given_up_ = given_up_ || aborts;
    for (auto& [name, lane] : lanes_) {
      if (lane.id != nullptr) letters_->take_back(*lane.id);
      if (aborts)
        give_up(lane);
      else if (lane.handle != nullptr)
        nccl_->leave(std::exchange(lane.handle, nullptr), false);
    }
  }

 private:
  // An error of NCCL's may come of a rank that has failed, and took its lanes with it: then that rank is named.
  template <class Code>
  void by_name(const NcclLane& lane, Code code) {
    const Where where = place_of(lane);
    try {
      code();
    } catch (const CommError&) {
      letters_->check_peers(where);
      throw;
    }
  }
  // The call that the lane is busy with.
  Where place_of(const NcclLane& lane) const {
    for (const NcclTask& task : lane.queue)
      if (task.request != nullptr) return task.request->call->where;
    return lane.leaving.empty() ? call_.where : lane.leaving.front()->call->where;
  }
  void move_on(NcclLane& lane) {
    if (given_up_) return;
    if (lane.handle == nullptr && !lane.queue.empty() && !try_join(lane)) return;
    while (!lane.queue.empty() && nccl_->ready(lane.handle)) {
      if (!std::exchange(lane.busy, !lane.busy)) {
        nccl_->lane_after(lane.handle, lane.queue.front().begin);
        nccl_->forget(lane.queue.front().begin);
        lane.queue.front().start(*nccl_, lane.handle);
        continue;
      }
      const NcclTask task = std::move(lane.queue.front());
      lane.queue.pop_front();
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
    if (request.kind == Request::Kind::native) {
      if (lane.unseen != 0) nccl_->forget(lane.unseen);
      lane.unseen = mark;
    } else {
      request.handle = mark;
    }
    request.done = true;
  }
  // Makes the lane's communicator once its id is here. The first member makes the id and sends it.
  bool try_join(NcclLane& lane) {
    if (lane.parent != nullptr) {
      pump(*lane.parent);
      return lane.handle != nullptr;
    }
    const auto place = std::find(lane.members.begin(), lane.members.end(), rank_);
    NcclLibrary::Id id;
    if (place == lane.members.begin()) {
      id = nccl_->new_id();
      for (size_t i = 1; i < lane.members.size(); ++i)
        letters_->send(lane.members[i], lane.kind, id, call_);
    } else {
      if (lane.id == nullptr) lane.id = letters_->expect(lane.members[0], lane.kind, call_);
      if (!letters_->has_come(*lane.id)) return false;
      id = lane.id->text;
    }
    lane.handle = nccl_->join(id, static_cast<int>(lane.members.size()),
                              static_cast<int>(place - lane.members.begin()));
    return true;
  }
  void give_up(NcclLane& lane) noexcept {
    if (lane.handle != nullptr) nccl_->leave(std::exchange(lane.handle, nullptr), true);
    lane.busy = false;
  }

  int rank_;
  std::shared_ptr<NcclLetters> letters_;
  std::shared_ptr<NcclLibrary> nccl_;
  std::map<std::array<int, 3>, NcclLane> lanes_;  // {from, to, -1} or {0, 0, group}
  bool given_up_ = false;
  Call call_;
  Request ours_;  // stands for a task that is nobody's
};

}  // namespace yotta
