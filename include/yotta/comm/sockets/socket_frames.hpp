// Frames: what ranks tell each other on the sockets between them, and how they are put together
// again.
//
//   a frame    kind, type, world, group, tag, count, bytes, id  |  so many bytes
//   a stream   frame, frame, frame, ...
//
// A socket keeps the order, and loses nothing. Both ends are the same program, started by the same
// process: what comes is trusted.
//
// SocketInbox reads the streams of all ranks. The bytes of a frame go straight into the receiver's
// array, if its receive is posted in time.
// Cost: 48 bytes per frame.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "yotta/comm/engine/transport.hpp"

namespace yotta {

struct SocketFrame {
  enum class Kind : uint8_t { message, offer, wanted, large, control, text, goodbye };
  Kind kind = Kind::text;
  DType dtype = DType::u8;
  std::array<char, 2> unused = {};
  int32_t world = 0;   // the number of the run
  uint64_t group = 0;  // WorldGroup::id
  // As Request::tag; of a control message its kind; of a goodbye the lost rank, or -1.
  int64_t tag = 0;
  int64_t count = 0;  // of elements
  int64_t bytes = 0;  // that follow
  uint64_t id = 0;    // of an offer, and of the frames that answer it
};
static_assert(std::has_unique_object_representations_v<SocketFrame>);  // no padding

// The transport of the current run.
class SocketReceiver {
 public:
  virtual ~SocketReceiver() = default;
  // The receive that the bytes of this frame are for; it has room for them. Null: none is posted
  // yet.
  virtual Request* find_recv(int from, const SocketFrame& frame) = 0;
  // A frame has arrived: in that request's data, or in `bytes`.
  virtual void arrived(int from, const SocketFrame& frame, Request* recv, std::string bytes) = 0;
  // All of it has left.
  virtual void sent(Request& request) = 0;
};

class SocketInbox {
 public:
  explicit SocketInbox(int size) : peers_(static_cast<size_t>(size)) {}

  // From here on frames of run number `world` go to `receiver`; those of older runs are dropped.
  void attach(int32_t world, SocketReceiver* receiver) {
    world_ = world;
    receiver_ = receiver;
    std::deque<Early> early;
    early.swap(early_);
    for (Early& each : early) deliver(each.from, each.frame, nullptr, std::move(each.bytes));
  }
  void detach(const SocketReceiver* receiver) {
    if (receiver_ == receiver) receiver_ = nullptr;
  }
  SocketReceiver* receiver() const { return receiver_; }

  // Where the next bytes of a rank's stream belong, as far as that is known: the rest of a frame.
  std::span<std::byte> rest_of_frame(int from) {
    Peer& it = peer(from);
    if (it.header_bytes < sizeof it.frame) return {};
    return {place_of(it) + it.got, static_cast<size_t>(it.frame.bytes - it.got)};
  }
  // So many bytes have been put there.
  void has_come(int from, size_t bytes) {
    peer(from).got += static_cast<int64_t>(bytes);
    end_if_whole(from);
  }
  // The next bytes of its stream.
  void take(int from, std::span<const std::byte> bytes) {
    Peer& it = peer(from);
    while (!bytes.empty()) {
      if (it.header_bytes < sizeof it.frame) {
        const size_t count = std::min(sizeof it.frame - it.header_bytes, bytes.size());
        std::memcpy(reinterpret_cast<std::byte*>(&it.frame) + it.header_bytes, bytes.data(), count);
        it.header_bytes += count;
        bytes = bytes.subspan(count);
        if (it.header_bytes < sizeof it.frame) return;
        begin(from);
        end_if_whole(from);
      } else {
        const std::span<std::byte> rest = rest_of_frame(from);
        const size_t count = std::min(rest.size(), bytes.size());
        std::memcpy(rest.data(), bytes.data(), count);
        bytes = bytes.subspan(count);
        has_come(from, count);
      }
    }
  }
  // Never touches this request's data again.
  void forget(const Request& request) {
    for (Peer& each : peers_) {
      if (each.recv != &request) continue;
      each.bytes.resize(static_cast<size_t>(each.frame.bytes));
      std::memcpy(each.bytes.data(), request.data.bytes, static_cast<size_t>(each.got));
      each.recv = nullptr;
    }
  }

  // The next text that has come from a process, if any.
  std::optional<std::string> take_text(int from) {
    std::deque<std::string>& texts = peer(from).texts;
    if (texts.empty()) return {};
    std::string text = std::move(texts.front());
    texts.pop_front();
    return text;
  }
  bool said_goodbye(int from) const { return peers_[static_cast<size_t>(from)].said_goodbye; }
  // The rank that another process has lost; -1: none.
  int lost() const { return lost_; }

 private:
  struct Peer {
    SocketFrame frame = {};
    size_t header_bytes = 0;  // of the frame itself, that have come
    int64_t got = 0;          // of the bytes behind it
    Request* recv = nullptr;  // they go to its data
    std::string bytes = {};   // they go here, if no receive is posted
    bool said_goodbye = false;
    std::deque<std::string> texts = {};
  };
  struct Early {  // a frame of a run that this process has not begun
    int from;
    SocketFrame frame;
    std::string bytes;
  };
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  static std::byte* place_of(Peer& it) {
    return it.recv != nullptr ? reinterpret_cast<std::byte*>(it.recv->data.bytes)
                              : reinterpret_cast<std::byte*>(it.bytes.data());
  }

  void begin(int from) {
    Peer& it = peer(from);
    const bool has_bytes = it.frame.bytes > 0 || it.frame.kind == SocketFrame::Kind::large;
    it.got = 0;
    it.recv = is_current(it.frame) && has_bytes ? receiver_->find_recv(from, it.frame) : nullptr;
    if (it.recv == nullptr) it.bytes.resize(static_cast<size_t>(it.frame.bytes));
  }
  void end_if_whole(int from) {
    Peer& it = peer(from);
    if (it.got < it.frame.bytes) return;
    it.header_bytes = 0;
    deliver(from, it.frame, std::exchange(it.recv, nullptr), std::exchange(it.bytes, {}));
  }
  bool is_current(const SocketFrame& frame) const {
    return receiver_ != nullptr && frame.world == world_ && frame.kind != SocketFrame::Kind::text;
  }
  void deliver(int from, const SocketFrame& frame, Request* recv, std::string bytes) {
    if (frame.kind == SocketFrame::Kind::text) {
      peer(from).texts.push_back(std::move(bytes));
    } else if (frame.kind == SocketFrame::Kind::goodbye) {
      peer(from).said_goodbye = true;
      if (lost_ < 0) lost_ = static_cast<int>(frame.tag);
    } else if (is_current(frame)) {
      receiver_->arrived(from, frame, recv, std::move(bytes));
    } else if (frame.world > world_) {
      early_.push_back({from, frame, std::move(bytes)});
    }
  }

  std::vector<Peer> peers_;  // by rank
  SocketReceiver* receiver_ = nullptr;
  int32_t world_ = 0;
  std::deque<Early> early_;
  int lost_ = -1;
};

}  // namespace yotta
