// TCP ranks: the ranks of a world are processes, and plain sockets move the bytes: no MPI is needed. Only messages: all
// collectives are the library's own algorithms on top of them.
//
//     a small message is sent at once ("eager"):             a large one asks first ("rendezvous"):
//
//     sender                     receiver                     sender                     receiver
//     send ── message ─────────► recv is posted: copied       send ── offer ───────────►
//     done                       else kept until it is        (waits)                    recv
//                                                                  ◄────────── wanted ──
//                                                             ── large ────────────────► straight into its array
//                                                             done
//
// Eager costs one way instead of three, but the receiver may have to keep, and copy, what it has not asked for; so only
// messages of up to `eager_bytes` are. MPI does the same. A program whose sends must not be buffered gets rendezvous at
// any length: then a send that nobody receives waits, and two that wait for each other are a deadlock (deadlock.hpp).
//
// There is no thread beside the rank: bytes move while it communicates, and only then (engine.hpp). It hears of failures
// in its next call; while it waits it sleeps in the kernel, and wakes up when something comes.
// Deadlocks, failures, calls that differ: letters on the same connections (control_plane.hpp).
// Cost of a message: alpha of one way, or of three; no copy but the kernel's if the receiver has asked before.
// References: MPI 3.1, section 3.4; Sur, Jin, Chai, Panda, "RDMA read based rendezvous protocol for MPI", PPoPP 2006.
#pragma once

#include <numeric>

#include "yotta/comm/waiting/control_plane.hpp"
#include "yotta/comm/tcp/tcp_inbox.hpp"
#include "yotta/comm/waiting/world_state.hpp"

namespace yotta {

struct TcpOptions {
  int64_t eager_bytes = 64 * 1024;  // longer messages ask first; -1: all do
  double patience = 1;              // seconds after which a rank says that it waits
  // Of collectives, as they start, for a letter a rank; else calls that differ are seen when they wait too long.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

class TcpTransport : public Transport, private TcpReceiver {
 public:
  // The first `size` processes make one together, for their run number `world`.
  TcpTransport(std::shared_ptr<TcpMesh> mesh, int size, int32_t world,
               const TcpOptions& options = {})
      : options_(options),
        mesh_(std::move(mesh)),
        size_(size),
        world_(world),
        lookout_(mesh_->rank(), size, [this](int to, int kind, const std::string& text) {
          mesh_->send(to, frame(TcpFrame::Kind::letter, kind), text);
        }) {
    state_.rank = mesh_->rank();
    state_.groups.emplace_back().members.resize(static_cast<size_t>(size));
    std::iota(state_.groups[0].members.begin(), state_.groups[0].members.end(), 0);
    mesh_->attach(world, this);
  }
  ~TcpTransport() override { mesh_->detach(this); }
  int rank() const override { return state_.rank; }
  int size() const override { return size_; }

  // --- messages ---
  void post(Request& request) override {
    const Where where = request.call->where;
    expect_on_cpu(request.data, where);
    check(where);
    request.owner = rank();
    state_.in_flight.insert(&request);
    lookout_.moved();
    if (request.kind == Request::Kind::recv) {
      if (const auto here = inbox_.post(request, state_.group_of(request).id)) give(request, *here);
      return;
    }
    TcpFrame header = frame(TcpFrame::Kind::message, request.tag);
    header.group = state_.group_of(request).id;
    header.count = request.data.count;
    header.dtype = request.data.dtype;
    if (request.data.nbytes() <= options_.eager_bytes)
      return mesh_->send(request.peer, header, request);
    header.kind = TcpFrame::Kind::offer;
    header.id = ++offers_made_;
    offers_[header.id] = &request;
    mesh_->send(request.peer, header);
  }
  bool test(Request& request) override {
    if (request.done) return true;
    progress(0);
    if (const auto wrong = wrong_.find(&request); wrong != wrong_.end())
      fail_mismatch(request, wrong->second);
    return request.done;
  }
  void withdraw(Request& request) override {
    mesh_->forget(request);
    inbox_.remove(request);
    wrong_.erase(&request);
    const auto is_it = [&](const auto& each) { return each.second == &request; };
    std::erase_if(offers_, is_it);
    std::erase_if(rooms_, is_it);
    finish(request);
  }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    lookout_.check(strands[0].where);      // test() may have heard of it
    for (const Waiting& strand : strands)  // and may have read what another strand waits for
      if (is_ready(strand)) return;
    if (lookout_.should_report(options_.patience))
      lookout_.report(report_waits(state_, strands, lookout_.epoch(), [this](const Request& recv) {
        return inbox_.find_other_tag(recv, state_.group_of(recv).id);
      }));
    const double patience = options_.patience - lookout_.still();
    progress(std::min(seconds, patience > 0 ? patience + 0.001 : 1.0));
    lookout_.check(strands[0].where);
  }

  // --- failures and the end ---
  bool failed() const override { return lookout_.failed(); }
  void check(Where where) override {
    progress(0);
    lookout_.check(where);
  }
  void fail(const std::string& message) override {
    lookout_.fail(message);
    let_go();
  }
  void end(Where where) override {
    WaitReport returned;
    returned.state = RankWait::State::returned;
    if (!failed()) lookout_.report(returned);
    // A connection keeps the order: when a rank's word has come, all that it had sent has.
    for (int other = 0; other < size_; ++other)
      mesh_->send(other, frame(TcpFrame::Kind::letter, ended_letter));
    while (ended_ < size_ && !failed()) progress(1);
    if (const TcpArrival* const other = inbox_.first_kept(); other != nullptr && !failed())
      throw CommError(where, describe_unreceived(
                                 other->from, other->header.count * bytes_of(other->header.dtype),
                                 other->header.tag, rank()));
    while (!state_.in_flight.empty() && !failed()) progress(1);  // sends that nobody waits for
    if (failed()) let_go();
    lookout_.check_at_end(where);
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const uint64_t id = group_id(state_.groups[static_cast<size_t>(parent)].id, sequence, color);
    state_.groups.push_back({{members.begin(), members.end()}, id, -1});
    return static_cast<int>(state_.groups.size()) - 1;
  }
  // Not a meeting place: only to have the calls compared.
  CollectiveRendezvous* enter(int number, int64_t collective, const Call& call) override {
    const WorldGroup& group = state_.groups[static_cast<size_t>(number)];
    const int ranks = static_cast<int>(group.members.size());
    if (options_.compare_calls && ranks > 1)
      lookout_.compare(group.id, collective, ranks,
                       group.members[static_cast<size_t>(collective % ranks)], false, call);
    return nullptr;
  }

 private:
  static constexpr int64_t ended_letter = ControlPlane::kinds;

  static void expect_on_cpu(ConstData data, Where where) {
    if (data.device == Device::meta)
      yotta::fail(where, "a tensor on meta has no data that could be sent; use thread ranks");
    if (data.device == Device::cuda)
      yotta::fail(
          where, "TCP moves what is in the CPU's memory; run with --comm nccl for tensors on cuda");
  }
  TcpFrame frame(TcpFrame::Kind kind, int64_t tag) const {
    return {.kind = kind, .world = world_, .tag = tag};
  }
  void finish(Request& request) {
    state_.in_flight.erase(&request);
    lookout_.moved();
    request.done = true;
  }
  // Would whoever tests these requests, one after the other, go on, or throw?
  bool is_ready(const Waiting& strand) const {
    for (const Request* const each : strand.requests) {
      if (each == nullptr || each->done) continue;
      return wrong_.contains(each);
    }
    return strand.strand < 0;
  }
  // After a failure: nobody touches the data of any request any more.
  void let_go() {
    for (const Request* request : state_.in_flight) mesh_->forget(*request);
    state_.in_flight.clear();
    inbox_.clear();
    offers_.clear();
    rooms_.clear();
  }
  void progress(double seconds) {
    mesh_->progress(seconds);
    const int other = mesh_->lost();
    if (other >= 0)
      lookout_.lost(other, describe_end(other, mesh_->processes()[static_cast<size_t>(other)]));
  }

  // --- the receiver's side ---
  // A message or an offer and its receive have found each other.
  void give(Request& recv, const TcpArrival& arrival) {
    if (!fits(arrival.header, recv)) {
      wrong_[&recv] = arrival.header;  // whoever waits for it is told
    } else if (arrival.header.kind == TcpFrame::Kind::offer) {
      rooms_[{arrival.from, arrival.header.id}] = &recv;
      TcpFrame wanted = frame(TcpFrame::Kind::wanted, 0);
      wanted.id = arrival.header.id;
      mesh_->send(arrival.from, wanted);
    } else {
      std::copy(arrival.bytes.begin(), arrival.bytes.end(),
                reinterpret_cast<char*>(recv.data.bytes));
      finish(recv);
    }
  }
  // Who wanted this offer; null: its receive was withdrawn.
  Request* take_room(int from, uint64_t id) {
    const auto room = rooms_.extract({from, id});
    return room.empty() ? nullptr : room.mapped();
  }
  Request* find_room(int from, const TcpFrame& header) override {
    if (header.kind == TcpFrame::Kind::large) {
      const auto room = rooms_.find({from, header.id});
      return room == rooms_.end() ? nullptr : room->second;
    }
    return header.kind == TcpFrame::Kind::message ? inbox_.take(from, header, true) : nullptr;
  }
  void arrived(int from, const TcpFrame& header, Request* room, std::string bytes) override {
    switch (header.kind) {
      case TcpFrame::Kind::letter:
        if (header.tag == ended_letter) return static_cast<void>(++ended_);
        return lookout_.read(from, static_cast<int>(header.tag), bytes);
      case TcpFrame::Kind::wanted: return send_wanted(from, header.id);
      case TcpFrame::Kind::large: room = take_room(from, header.id); break;
      default: break;
    }
    if (room != nullptr) return finish(*room);
    if (header.kind == TcpFrame::Kind::large) return;  // its receive was withdrawn
    TcpArrival arrival{from, header, std::move(bytes)};
    if (Request* const recv = inbox_.take(from, header, false))
      give(*recv, arrival);
    else
      inbox_.keep(std::move(arrival));
  }

  // --- the sender's side ---
  void send_wanted(int to, uint64_t id) {
    const auto offer = offers_.find(id);
    if (offer == offers_.end()) return;  // it was withdrawn
    Request& request = *offer->second;
    offers_.erase(offer);
    TcpFrame header = frame(TcpFrame::Kind::large, request.tag);
    header.id = id;
    mesh_->send(to, header, request);
  }
  void sent(Request& request) override { finish(request); }

  // --- words ---
  [[noreturn]] void fail_mismatch(const Request& recv, const TcpFrame& header) {
    // In a collective the calls differ, most likely: the letter that says so may be on its way.
    const Deadline deadline(options_.compare_calls && recv.tag < 0 ? options_.patience : 0);
    while (!failed() && deadline.left() > 0) progress(deadline.left());
    lookout_.check(recv.call->where);
    fail_as<Mismatch>(recv.call->where,
                      "both sides of a message must name the same count and type.\n"
                      "  rank {} sends {} {}\n  rank {} receives {} {} at {}",
                      recv.peer, header.count, name(header.dtype), rank(), recv.data.count,
                      name(recv.data.dtype), at(recv.call->where));
  }

  TcpOptions options_;
  std::shared_ptr<TcpMesh> mesh_;
  int size_;
  int32_t world_;
  ControlPlane lookout_;
  WorldState<WorldGroup> state_;
  TcpInbox inbox_;
  std::map<uint64_t, Request*> offers_;  // of this rank, by id
  uint64_t offers_made_ = 0;
  std::map<std::pair<int, uint64_t>, Request*> rooms_;  // for offers of others that are wanted
  std::map<const Request*, TcpFrame> wrong_;            // receives whose message is another one
  int ended_ = 0;                                       // ranks whose code has
};

}  // namespace yotta
