// TCP frames: what ranks tell each other, as the bytes of ZeroMQ messages, and the checks of what
// has come.
//
//   a frame    kind, world, group, tag, count, type, bytes, id  |  so many bytes
//   its parts  from, to, number, offset, frame  |  at most 256 KiB of them
//              one ZeroMQ message each
//
// A long frame travels in parts, so that no ZeroMQ message is long: a longer one is refused before
// it is read (ZMQ_MAXMSGSIZE), and memory grows only by what has really come.
// All parts from one rank to another are numbered: a gap means that a connection has broken, and
// that something is lost.
//
// TcpInbox puts the parts together. The bytes go straight into the receiver's array, if its receive
// is posted in time.
// Nothing in a part is trusted: kinds, types, ranks, tags, counts and lengths are checked before
// they are used. Only processes with the job's key can send at all (tcp_sockets.hpp); if one of
// them sends something wrong, the error names its rank.
// Cost: 80 bytes per part, and a copy on each side.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "yotta/comm/engine/transport.hpp"
#include "yotta/comm/waiting/control_plane.hpp"

namespace yotta {

struct TcpFrame {
  enum class Kind : uint8_t { message, offer, wanted, large, control, text, goodbye };
  Kind kind = Kind::text;
  DType dtype = DType::u8;
  std::array<char, 2> unused = {};
  int32_t world = 0;   // the number of the run
  uint64_t group = 0;  // WorldGroup::id
  // As Request::tag; of a control message its kind; of a goodbye the lost rank, or -1.
  int64_t tag = 0;
  int64_t count = 0;  // of elements, of the whole message
  int64_t bytes = 0;  // that follow
  uint64_t id = 0;    // of an offer, and of the frames that answer it
};

// What a ZeroMQ message begins with.
struct TcpPart {
  std::array<char, 8> mark = {'y', 'o', 't', 't', 'a', ' ', '2', '\n'};
  int32_t from = 0, to = 0;
  int64_t number = 0;  // of the parts from this rank to that one, from 0
  int64_t offset = 0;  // of its bytes in the frame's
  TcpFrame frame = {};
};
static_assert(std::has_unique_object_representations_v<TcpPart>);  // no padding, which would leak

namespace tcp_limits {
constexpr int64_t part_bytes = 256 * 1024;         // of a frame in one part
constexpr int64_t frame_bytes = int64_t{1} << 40;  // of a whole frame: fewer than this
// Of a ZeroMQ message: with its header, and what encryption adds.
constexpr int64_t message_bytes = part_bytes + static_cast<int64_t>(sizeof(TcpPart)) + 128;
constexpr int64_t control_kinds = ControlPlane::kinds + 1;  // and "this rank has ended"
}  // namespace tcp_limits

// --- checks ---

// Why a message of so many numbers, tag and bytes cannot be; empty: it can.
inline std::string find_fault_in_data(const TcpFrame& frame) {
  const int64_t size = bytes_of(frame.dtype);
  if (size == 0) return fmt::format("type {} does not exist", static_cast<int>(frame.dtype));
  if (frame.count < 0 || frame.count >= tcp_limits::frame_bytes / size)
    return fmt::format("{} numbers", frame.count);
  if (frame.tag > std::numeric_limits<int32_t>::max()) return fmt::format("tag {}", frame.tag);
  const int64_t bytes = frame.kind == TcpFrame::Kind::offer ? 0 : frame.count * size;
  if (frame.bytes == bytes) return "";
  return fmt::format("{} bytes for {} {}", frame.bytes, frame.count, name(frame.dtype));
}
inline std::string find_fault_in_frame(const TcpFrame& frame, int size) {
  using Kind = TcpFrame::Kind;
  const auto fault = [&](bool is, const char* what) {
    return is ? fmt::format("{} {}", what, frame.tag) : std::string();
  };
  if (frame.world < 0) return fmt::format("run {}", frame.world);
  if (frame.bytes < 0 || frame.bytes >= tcp_limits::frame_bytes)
    return fmt::format("{} bytes", frame.bytes);
  const bool has_no_bytes = frame.kind == Kind::wanted || frame.kind == Kind::goodbye;
  if (has_no_bytes && frame.bytes != 0) return fmt::format("{} bytes", frame.bytes);
  switch (frame.kind) {
    case Kind::message:
    case Kind::offer:
    case Kind::large: return find_fault_in_data(frame);
    case Kind::control:
      return fault(frame.tag < 0 || frame.tag >= tcp_limits::control_kinds, "control message");
    case Kind::goodbye: return fault(frame.tag < -1 || frame.tag >= size, "the end of rank");
    case Kind::wanted:
    case Kind::text: return "";
  }
  return fmt::format("kind {} does not exist", static_cast<int>(frame.kind));
}

// A part, and the bytes that follow it.
struct ReadPart {
  TcpPart part;
  std::string_view bytes;
};
// The part that a message from rank `from` to `rank`, of `size` ranks, holds. Empty, with the
// reason, if it holds none.
inline std::optional<ReadPart> read_part(std::string_view message, int from, int rank, int size,
                                         std::string& fault) {
  ReadPart read;
  if (message.size() < sizeof(TcpPart)) {
    fault = fmt::format("{} bytes, less than a header", message.size());
    return {};
  }
  std::memcpy(&read.part, message.data(), sizeof(TcpPart));
  read.bytes = message.substr(sizeof(TcpPart));
  const TcpPart& part = read.part;
  const auto length = static_cast<int64_t>(read.bytes.size());
  if (part.mark != TcpPart().mark) {
    fault = "not a message of this version of this library";
  } else if (part.from != from || part.to != rank) {
    fault = fmt::format("a message from rank {} to rank {}, of {} ranks", part.from, part.to, size);
  } else if (fault = find_fault_in_frame(part.frame, size); !fault.empty()) {
    return {};
  } else if (part.offset < 0 || part.offset > part.frame.bytes - length ||
             length > tcp_limits::part_bytes || (length == 0) != (part.frame.bytes == 0)) {
    fault =
        fmt::format("bytes {} to {} of {}", part.offset, part.offset + length, part.frame.bytes);
  }
  if (fault.empty()) return read;
  return {};
}

// --- frames, from their parts ---

// The transport of the current run.
class TcpReceiver {
 public:
  virtual ~TcpReceiver() = default;
  // The receive that the bytes of this frame are for; it has room for them. Null: none is posted
  // yet.
  virtual Request* find_recv(int from, const TcpFrame& frame) = 0;
  // A frame has arrived: in that request's data, or in `bytes`. Errors: what no rank sends.
  virtual void arrived(int from, const TcpFrame& frame, Request* recv, std::string bytes) = 0;
  // All of it has left.
  virtual void sent(Request& request) = 0;
};

class TcpInbox {
 public:
  TcpInbox(int rank, int size) : rank_(rank), peers_(static_cast<size_t>(size)) {}

  // From here on frames of run number `world` go to `receiver`; those of older runs are dropped.
  void attach(int32_t world, TcpReceiver* receiver) {
    world_ = world;
    receiver_ = receiver;
    std::deque<Early> early;
    early.swap(early_);
    for (Early& each : early) deliver(each.from, each.frame, nullptr, std::move(each.bytes));
  }
  void detach(const TcpReceiver* receiver) {
    if (receiver_ == receiver) receiver_ = nullptr;
  }
  TcpReceiver* receiver() const { return receiver_; }

  // A ZeroMQ message has come on the connection of rank `from`. Returns what is wrong with it, or
  // nothing.
  std::string take(std::string_view message, int from) {
    std::string fault;
    const int size = static_cast<int>(peers_.size());
    const std::optional<ReadPart> read = read_part(message, from, rank_, size, fault);
    if (!read) return fault;
    try {
      return take_part(read->part, read->bytes);
    } catch (const CommError&) {
      throw;  // a verdict about the run
    } catch (const Error& error) {
      return error.what();
    }
  }
  // Never touches this request's data again.
  void forget(const Request& request) {
    for (Peer& each : peers_) {
      if (each.recv != &request) continue;
      each.recv = nullptr;
      each.bytes.assign(reinterpret_cast<const char*>(request.data.bytes),
                        static_cast<size_t>(each.got));
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
  // How many of its parts have come?
  int64_t parts_from(int from) const { return peers_[static_cast<size_t>(from)].parts; }
  bool said_goodbye(int from) const { return peers_[static_cast<size_t>(from)].said_goodbye; }
  // The rank that another process has lost; -1: none.
  int lost() const { return lost_; }

 private:
  struct Peer {
    int64_t parts = 0;        // that have come
    bool is_reading = false;  // a frame, of which `got` bytes have come
    TcpFrame frame = {};
    int64_t got = 0;
    Request* recv = nullptr;  // the bytes go to its data
    std::string bytes = {};   // the bytes go here, if no receive is posted
    bool said_goodbye = false;
    std::deque<std::string> texts = {};
  };
  struct Early {  // a frame of a run that this process has not begun
    int from;
    TcpFrame frame;
    std::string bytes;
  };
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }

  std::string take_part(const TcpPart& part, std::string_view bytes) {
    Peer& from = peer(part.from);
    if (part.number != from.parts)
      return fmt::format(
          "part {} where {} was next: its connection has broken, and what was under "
          "way is lost",
          part.number, from.parts);
    ++from.parts;
    if (!from.is_reading) begin(part, from);
    if (part.offset != from.got || std::memcmp(&part.frame, &from.frame, sizeof part.frame) != 0)
      return fmt::format("bytes {} of a frame where {} of another were next", part.offset,
                         from.got);
    if (from.recv != nullptr && !bytes.empty())
      std::memcpy(from.recv->data.bytes + from.got, bytes.data(), bytes.size());
    else if (from.recv == nullptr)
      from.bytes.append(bytes);
    from.got += static_cast<int64_t>(bytes.size());
    if (from.got < part.frame.bytes) return "";
    from.is_reading = false;
    deliver(part.from, part.frame, std::exchange(from.recv, nullptr),
            std::exchange(from.bytes, {}));
    return "";
  }
  void begin(const TcpPart& part, Peer& from) {
    from.is_reading = true;
    from.frame = part.frame;
    from.got = 0;
    from.bytes.clear();
    const bool has_bytes = part.frame.bytes > 0 || part.frame.kind == TcpFrame::Kind::large;
    from.recv =
        is_current(part.frame) && has_bytes ? receiver_->find_recv(part.from, part.frame) : nullptr;
  }
  bool is_current(const TcpFrame& frame) const {
    return receiver_ != nullptr && frame.world == world_ && frame.kind != TcpFrame::Kind::text;
  }
  void deliver(int from, const TcpFrame& frame, Request* recv, std::string bytes) {
    if (frame.kind == TcpFrame::Kind::text) {
      peer(from).texts.push_back(std::move(bytes));
    } else if (frame.kind == TcpFrame::Kind::goodbye) {
      peer(from).said_goodbye = true;
      if (lost_ < 0) lost_ = static_cast<int>(frame.tag);
    } else if (is_current(frame)) {
      receiver_->arrived(from, frame, recv, std::move(bytes));
    } else if (frame.world > world_) {
      early_.push_back({from, frame, std::move(bytes)});
    }
  }

  int rank_;
  std::vector<Peer> peers_;  // by rank
  TcpReceiver* receiver_ = nullptr;
  int32_t world_ = 0;
  std::deque<Early> early_;
  int lost_ = -1;
};

}  // namespace yotta
