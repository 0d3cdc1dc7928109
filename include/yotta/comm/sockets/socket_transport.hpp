// Ranks that are processes of one machine, joined by sockets that they have inherited
// (socket_mesh.hpp). There are only messages: all collectives are the library's own algorithms on
// top of them.
//
//     a small message is sent at once ("eager"):             a large one asks first ("rendezvous"):
//
//     sender               receiver                  sender               receiver
//     send ── message ───► recv is posted: copied    send ── offer ─────►
//     done                 else kept until it is     (waits)              recv
//                                                         ◄──── wanted ──
//                                                    ── large ──────────► straight into its array
//                                                    done
//
// Eager costs one way instead of three, but the receiver may have to keep, and copy, what it has
// not asked for; so only messages of up to `eager_bytes` are eager. MPI does the same. A program
// whose sends must not be buffered gets rendezvous at any length: then a send that no rank receives
// waits, and two that wait for each other are a deadlock (deadlock.hpp).
//
// There is no thread beside the rank: bytes move while it communicates, and only then (engine.hpp).
// It hears of failures in its next call. While it waits it sleeps in the kernel, and wakes up when
// something arrives.
// Control messages travel on the same sockets (control_plane.hpp).
// Cost of a message: alpha of one way, or of three; a copy by the kernel out of the sender's array
// and one into the receiver's, if its receive is posted in time.
// References: MPI 3.1, section 3.4; Sur, Jin, Chai, Panda, "RDMA read based rendezvous protocol for
// MPI", PPoPP 2006.
#pragma once

#include <map>
#include <numeric>

#include "yotta/comm/matching/message_matcher.hpp"
#include "yotta/comm/sockets/socket_mesh.hpp"
#include "yotta/comm/waiting/control_plane.hpp"

namespace yotta {

struct SocketOptions {
  int64_t eager_bytes = 64 * 1024;  // longer messages ask first; -1: all do
  double patience = 1;              // seconds after which a waiting rank reports that it waits
  // Compares the calls of collectives as they start, for one control message per rank. Without it,
  // calls that differ are noticed when ranks wait too long.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

// A message, or the offer of a large one.
struct SocketArrival {
  int from = 0;
  SocketFrame header = {};
  std::string bytes = {};  // of an offer: none

  Envelope envelope() const { return {header.group, from, header.tag}; }
};

// Do both sides name the same count and type?
inline bool fits(const SocketFrame& header, const Request& recv) {
  return recv.data.count == header.count && recv.data.dtype == header.dtype;
}

class SocketTransport : public Transport, private SocketReceiver {
 public:
  // The first `size` processes make one together, for their run number `world`.
  SocketTransport(std::shared_ptr<SocketMesh> mesh, int size, int32_t world,
                  const SocketOptions& options = {});
  ~SocketTransport() override;
  int rank() const override { return state_.rank; }
  int size() const override { return size_; }

  // --- messages ---
  void post(Request& request) override {
    const Where where = request.call->where;
    expect_on_cpu(request.data, where);
    check(where);
    request.owner = rank();
    state_.in_flight.insert(&request);
    control_plane_.moved();
    if (request.kind == Request::Kind::recv) {
      const Envelope envelope = envelope_of(request);
      if (const auto arrival = matcher_.take_unexpected(envelope))
        return deliver(request, *arrival);
      return matcher_.add_posted(envelope, request);
    }
    SocketFrame header = frame(SocketFrame::Kind::message, request.tag);
    header.group = state_.group_of(request).id;
    header.count = request.data.count;
    header.dtype = request.data.dtype;
    if (request.data.nbytes() <= options_.eager_bytes)
      return mesh_->send(request.peer, header, request);
    header.kind = SocketFrame::Kind::offer;
    header.id = ++offers_made_;
    offers_[header.id] = &request;
    mesh_->send(request.peer, header);
  }
  bool test(Request& request) override {
    if (request.done) return true;
    progress(0);
    expect_none_wrong();
    return request.done;
  }
  void withdraw(Request& request) override {
    mesh_->forget(request);
    matcher_.remove_posted(request);
    wrong_.erase(&request);
    const auto is_it = [&](const auto& each) { return each.second == &request; };
    std::erase_if(offers_, is_it);
    std::erase_if(wanted_, is_it);
    finish(request);
  }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    control_plane_.check(strands[0].where);  // test() may have received a verdict
    expect_none_wrong();
    for (const Waiting& strand : strands)  // or what another strand waits for
      if (is_ready(strand)) return;
    if (control_plane_.should_report(options_.patience, state_of(strands)))
      control_plane_.report(
          report_waits(state_, strands, control_plane_.epoch(),
                       [this](const Request& recv) { return find_other_tag(recv); }));
    const double patience = options_.patience - control_plane_.seconds_still();
    progress(std::min(seconds, patience > 0 ? patience + 0.001 : 1.0));
    control_plane_.check(strands[0].where);
  }
  void awake() override { control_plane_.moved(); }

  // --- failures and the end ---
  bool failed() const override { return control_plane_.failed(); }
  void check(Where where) override {
    progress(0);
    control_plane_.check(where);
    expect_none_wrong();
  }
  void fail(const std::string& message) override {
    control_plane_.fail(message);
    abandon_requests();
  }
  void end(Where where) override {
    WaitReport returned;
    returned.state = RankWait::State::returned;
    if (!failed()) control_plane_.report(returned);
    // A connection keeps the order: when this message of a rank has come, all that it had sent has.
    for (int other = 0; other < size_; ++other)
      mesh_->send(other, frame(SocketFrame::Kind::control, ended_message));
    while (ended_ < size_ && !failed()) progress(1);
    if (const auto* const other = matcher_.first_unexpected(); other != nullptr && !failed()) {
      const SocketFrame& header = other->message.header;
      throw CommError(
          where, describe_unreceived(other->envelope.from, header.count * bytes_of(header.dtype),
                                     header.tag, rank()));
    }
    while (!state_.in_flight.empty() && !failed()) progress(1);  // sends that no call waits for
    if (failed()) abandon_requests();
    control_plane_.check_at_end(where);
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const uint64_t id = group_id(state_.groups[static_cast<size_t>(parent)].id, sequence, color);
    state_.groups.push_back({{members.begin(), members.end()}, id, -1});
    return static_cast<int>(state_.groups.size()) - 1;
  }
  // There is no shared memory to meet in: this only has the calls compared.
  CollectiveRendezvous* enter(int number, int64_t collective, const Call& call) override {
    const WorldGroup& group = state_.groups[static_cast<size_t>(number)];
    const int ranks = static_cast<int>(group.members.size());
    if (options_.compare_calls && ranks > 1)
      control_plane_.compare(group.id, collective, ranks,
                             group.members[static_cast<size_t>(collective % ranks)], false, call);
    return nullptr;
  }

 private:
  static constexpr int64_t ended_message = ControlPlane::kinds;

  static void expect_on_cpu(ConstData data, Where where) {
    if (data.device == Device::meta)
      yotta::fail(where, "a tensor on meta has no data that could be sent; use thread ranks");
    if (data.device == Device::cuda)
      yotta::fail(where,
                  "sockets move what is in the CPU's memory; run with --comm nccl for tensors on "
                  "cuda");
  }
  SocketFrame frame(SocketFrame::Kind kind, int64_t tag) const {
    return {.kind = kind, .world = world_, .tag = tag};
  }
  Envelope envelope_of(const Request& recv) const {
    return {state_.group_of(recv).id, recv.peer, recv.tag};
  }
  void finish(Request& request) {
    state_.in_flight.erase(&request);
    control_plane_.moved();
    request.done = true;
  }
  static bool is_ready(const Waiting& strand) {
    for (const Request* const each : strand.requests)
      if (each != nullptr && !each->done) return false;
    return strand.strand < 0;
  }
  // After a failure: from here on the data of no request is touched any more.
  void abandon_requests() {
    for (const Request* request : state_.in_flight) mesh_->forget(*request);
    state_.in_flight.clear();
    matcher_.clear();
    offers_.clear();
    wanted_.clear();
  }
  void progress(double seconds) {
    mesh_->progress(seconds);
    if (mesh_->lost() >= 0) control_plane_.lost(mesh_->lost(), mesh_->describe_lost());
  }

  // --- the receiver's side ---
  // A message, or the offer of one, has been matched with its receive.
  void deliver(Request& recv, const SocketArrival& arrival) {
    if (!fits(arrival.header, recv)) {
      wrong_[&recv] = arrival.header;
    } else if (arrival.header.kind == SocketFrame::Kind::offer) {
      wanted_[{arrival.from, arrival.header.id}] = &recv;
      SocketFrame wanted = frame(SocketFrame::Kind::wanted, 0);
      wanted.id = arrival.header.id;
      mesh_->send(arrival.from, wanted);
    } else {
      std::copy(arrival.bytes.begin(), arrival.bytes.end(),
                reinterpret_cast<char*>(recv.data.bytes));
      finish(recv);
    }
  }
  Request* find_recv(int from, const SocketFrame& header) override {
    if (header.kind == SocketFrame::Kind::large) {
      const auto recv = wanted_.find({from, header.id});
      return recv == wanted_.end() || !fits(header, *recv->second) ? nullptr : recv->second;
    }
    if (header.kind != SocketFrame::Kind::message) return nullptr;
    Request* const recv = matcher_.find_posted({header.group, from, header.tag});
    if (recv == nullptr || !fits(header, *recv)) return nullptr;  // arrived() deals with it
    matcher_.remove_posted({header.group, from, header.tag}, *recv);
    return recv;
  }
  void arrived(int from, const SocketFrame& header, Request* recv, std::string bytes) override {
    switch (header.kind) {
      case SocketFrame::Kind::control:
        if (header.tag == ended_message) {
          ++ended_;
          return;
        }
        return control_plane_.read(from, static_cast<int>(header.tag), bytes);
      case SocketFrame::Kind::wanted: return send_wanted(from, header.id);
      case SocketFrame::Kind::large: wanted_.erase({from, header.id}); break;
      default: break;
    }
    if (recv != nullptr) return finish(*recv);
    if (header.kind == SocketFrame::Kind::large) return;  // its receive was withdrawn
    SocketArrival arrival{from, header, std::move(bytes)};
    Request* const posted = matcher_.find_posted(arrival.envelope());
    if (posted == nullptr) return matcher_.add_unexpected(arrival.envelope(), std::move(arrival));
    matcher_.remove_posted(arrival.envelope(), *posted);
    deliver(*posted, arrival);
  }

  // --- the sender's side ---
  void send_wanted(int to, uint64_t id) {
    const auto offer = offers_.find(id);
    if (offer == offers_.end()) return;  // it was withdrawn
    Request& request = *offer->second;
    offers_.erase(offer);
    SocketFrame header = frame(SocketFrame::Kind::large, request.tag);
    header.id = id;
    header.count = request.data.count;
    header.dtype = request.data.dtype;
    mesh_->send(to, header, request);
  }
  void sent(Request& request) override { finish(request); }

  // --- error messages ---
  std::string find_other_tag(const Request& recv) const {
    const auto* const other = matcher_.find_other_tag(envelope_of(recv));
    if (other == nullptr) return "";
    return describe_other_tag(other->envelope, "", envelope_of(recv), rank());
  }
  // Throws if a message does not fit its receive, whatever the rank waits for: the sender may wait
  // until it is received, and what the rank waits for may come after it.
  void expect_none_wrong() {
    if (wrong_.empty()) return;
    const auto& [recv, header] = *wrong_.begin();
    // In a collective the calls differ, most likely: the control message that says so may be on its
    // way.
    const bool may_differ = options_.compare_calls && recv->tag < 0;
    const double until = seconds_now() + (may_differ ? ControlPlane::seconds_to_compare : 0);
    for (double now; !failed() && (now = seconds_now()) < until;) progress(until - now);
    control_plane_.check(recv->call->where);
    const std::string sent = fmt::format("{} {}", header.count, name(header.dtype));
    const std::string text = describe_different_sizes(sent, *recv, rank());
    control_plane_.mismatch(text);
    throw Mismatch(recv->call->where, text);
  }

  SocketOptions options_;
  std::shared_ptr<SocketMesh> mesh_;
  int size_;
  int32_t world_;
  ControlPlane control_plane_;
  WorldState state_;
  MessageMatcher<SocketArrival> matcher_;
  std::map<uint64_t, Request*> offers_;  // sends of this rank, by id
  uint64_t offers_made_ = 0;
  std::map<std::pair<int, uint64_t>, Request*> wanted_;  // receives of offers, by sender and id
  std::map<const Request*, SocketFrame> wrong_;  // receives with a message of another count or type
  int ended_ = 0;                                // ranks whose code has ended
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/socket_transport.ipp"
#endif
