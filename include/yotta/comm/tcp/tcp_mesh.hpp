// TcpMesh: the connections of a process to all others, and the frames that travel on them.
//
//     |  TcpFrame: kind, world, group, tag, count, type, bytes, id  |  bytes: so many  |  TcpFrame  |  ...
//
// A connection is a stream of bytes in order, with no borders; so each message has a header in front that says how many
// bytes follow. Nobody helps: whoever waits calls progress(), which sleeps in poll(2) until bytes can be read or written,
// reads and writes what it can, and hands whole frames to the world's transport. Bytes go straight from the sender's
// array into the kernel, and from there into the receiver's array, if it has said where it is before they come.
// The process itself is a peer like the others, by a pair of sockets in the kernel.
//
// A process that ends well says good-bye. A connection that closes without it has lost its process: killed, or crashed.
// A host that has vanished (power, cable) closes nothing, and is asked now and then whether it is there (keepalive).
// Cost of a frame: 48 bytes, and calls of the kernel: one to write it; to read it one for the header, one for the bytes if
// they are all there, and one that finds no more.
#pragma once

#include <sys/uio.h>

#include <deque>

#include "yotta/comm/tcp/tcp_rendezvous.hpp"
#include "yotta/comm/engine/transport.hpp"

namespace yotta {

struct TcpFrame {
  enum class Kind : uint8_t { message, offer, wanted, large, letter, text, goodbye };
  Kind kind = Kind::text;
  DType dtype = DType::u8;
  int32_t world = 0;   // the number of the run
  uint64_t group = 0;  // WorldGroup::id
  int64_t tag = 0;     // as Request::tag; of a letter its kind; of a good-bye who was lost, or -1
  int64_t count = 0;   // of numbers, of the whole message
  int64_t bytes = 0;   // that follow
  uint64_t id = 0;     // of an offer, and what comes of it
};
static_assert(sizeof(TcpFrame) == 48);

// The transport of the world that runs.
class TcpReceiver {
 public:
  virtual ~TcpReceiver() = default;
  // Who has room for the bytes of this frame? Null: nobody yet.
  virtual Request* find_room(int from, const TcpFrame& frame) = 0;
  // It is here: in that request's data, or in `bytes`.
  virtual void arrived(int from, const TcpFrame& frame, Request* room, std::string bytes) = 0;
  // All of it is in the kernel's hands.
  virtual void sent(Request& request) = 0;
};

class TcpMesh {
 public:
  explicit TcpMesh(TcpJob job) : rank_(job.rank), processes_(std::move(job.processes)) {
    for (Socket& each : job.sockets) {
      ask_if_alive(each);
      connections_.push_back({.socket = std::move(each), .peer = std::ssize(connections_)});
    }
    int pair[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
      fail_as<CommError>(Where::current(), "socketpair: {}", std::strerror(errno));
    connections_[static_cast<size_t>(rank_)].socket = Socket(pair[0]);
    connections_.push_back({.socket = Socket(pair[1]), .peer = rank_});
    texts_.resize(processes_.size());
  }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(processes_.size()); }
  const std::vector<ProcessAddress>& processes() const { return processes_; }

  // From here on frames of run number `world` go to `receiver`; older ones to nobody.
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

  // Sends a request's data behind the frame; receiver->sent() when that is done.
  void send(int to, TcpFrame frame, Request& request) {
    frame.bytes = request.data.nbytes();
    put(to, {.frame = frame, .data = request.data.bytes, .request = &request});
  }
  void send(int to, TcpFrame frame, std::string bytes = "") {
    frame.bytes = std::ssize(bytes);
    put(to, {.frame = frame, .own = std::move(bytes)});
  }
  // Never touches this request's data again.
  void forget(const Request& request) {
    for (Connection& each : connections_) {
      for (size_t i = 0; i < each.out.size(); ++i) {
        Outgoing& out = each.out[i];
        if (out.request != &request) continue;
        out.request = nullptr;
        if (out.written > 0)  // the other side waits for the rest
          out.own.assign(reinterpret_cast<const char*>(std::exchange(out.data, nullptr)),
                         static_cast<size_t>(out.frame.bytes));
        else
          each.out.erase(each.out.begin() + static_cast<std::ptrdiff_t>(i--));
      }
      if (each.room == &request) {
        each.room = nullptr;
        each.bytes.assign(reinterpret_cast<const char*>(request.data.bytes), each.got - head);
        each.bytes.resize(static_cast<size_t>(each.frame.bytes));
      }
    }
  }

  // Reads and writes what can be, and sleeps until something can, for so many seconds at most.
  void progress(double seconds) {
    std::vector<pollfd> polls;
    for (const Connection& each : connections_)
      polls.push_back({each.is_open ? each.socket.fd() : -1,
                       static_cast<short>(each.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    const auto nanoseconds = static_cast<int64_t>(std::clamp(seconds, 0.0, 3600.0) * 1e9);
    const timespec wait{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    if (ppoll(polls.data(), polls.size(), &wait, nullptr) <= 0) return;
    for (size_t i = 0; i < polls.size(); ++i) {
      if ((polls[i].revents & POLLOUT) != 0) flush(connections_[i]);
      if ((polls[i].revents & ~POLLOUT) != 0) read(connections_[i]);
    }
  }

  // --- texts: what processes tell each other outside of runs ---
  void send_text(int to, std::string text) { send(to, TcpFrame(), std::move(text)); }
  // The next that has come from a process, if any.
  std::optional<std::string> take_text(int from) {
    std::deque<std::string>& texts = texts_[static_cast<size_t>(from)];
    if (texts.empty()) return {};
    std::string text = std::move(texts.front());
    texts.pop_front();
    return text;
  }

  // Is anything not yet in the kernel's hands?
  bool is_sending() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const Connection& each) { return !each.out.empty(); });
  }
  // The process that has ended without a word, or has been lost to others; -1: none.
  int lost() const { return lost_; }
  bool is_gone(int other) const { return !connections_[static_cast<size_t>(other)].is_open; }
  // The last words to all. What is under way gets some seconds.
  void say_goodbye() {
    for (int other = 0; other < size(); ++other)
      if (other != rank_) send(other, {.kind = TcpFrame::Kind::goodbye, .tag = lost_});
    const Deadline deadline(5);
    while (is_sending() && deadline.left() > 0) progress(deadline.left());
  }

 private:
  struct Outgoing {
    TcpFrame frame;
    const std::byte* data = nullptr;  // of the request; or
    std::string own = {};             // of the frame itself
    Request* request = nullptr;
    size_t written = 0;  // with the header
  };
  struct Connection {
    Socket socket;
    std::ptrdiff_t peer;
    bool is_open = true, said_goodbye = false;
    std::deque<Outgoing> out = {};
    TcpFrame frame = {};  // that is being read
    size_t got = 0;       // of it, with the header
    Request* room = nullptr;
    std::string bytes = {};  // where there is no room
  };
  struct Early {  // of a run that this process has not begun
    int from;
    TcpFrame frame;
    std::string bytes;
  };
  static constexpr size_t head = sizeof(TcpFrame);

  // A connection on which nothing comes for 5 s asks the other host's kernel, every 5 s; after five questions without an
  // answer, 30 s in all, it is closed. A process that computes, or is stopped, is not disturbed: its kernel answers.
  static void ask_if_alive(const Socket& socket) {
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  }

  void put(int to, Outgoing out) {
    Connection& connection = connections_[static_cast<size_t>(to)];
    if (!connection.is_open) return;  // its process has gone, and all will hear of it
    connection.out.push_back(std::move(out));
    if (connection.out.size() == 1) flush(connection);
  }
  void flush(Connection& connection) {
    while (!connection.out.empty()) {
      Outgoing& out = connection.out.front();
      const auto bytes = static_cast<size_t>(out.frame.bytes);
      const size_t of_head = std::min(out.written, head), of_bytes = out.written - of_head;
      const char* const data =
          out.request != nullptr ? reinterpret_cast<const char*>(out.data) : out.own.data();
      iovec parts[] = {{reinterpret_cast<char*>(&out.frame) + of_head, head - of_head},
                       {const_cast<char*>(data) + of_bytes, bytes - of_bytes}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      const ssize_t written = sendmsg(connection.socket.fd(), &message, MSG_NOSIGNAL);
      if (written < 0) return;  // full, or broken: then reading says so
      out.written += static_cast<size_t>(written);
      if (out.written < head + bytes) return;
      if (out.request != nullptr && receiver_ != nullptr) receiver_->sent(*out.request);
      connection.out.pop_front();
    }
  }

  void read(Connection& connection) {
    TcpFrame& frame = connection.frame;
    for (;;) {
      const size_t whole = head + (connection.got < head ? 0 : static_cast<size_t>(frame.bytes));
      char* to = reinterpret_cast<char*>(&frame) + connection.got;
      if (connection.got >= head)
        to = (connection.room != nullptr ? reinterpret_cast<char*>(connection.room->data.bytes)
                                         : connection.bytes.data()) +
             (connection.got - head);
      const ssize_t got = recv(connection.socket.fd(), to, whole - connection.got, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) return lose(connection);
      connection.got += static_cast<size_t>(got);
      const int from = static_cast<int>(connection.peer);
      if (connection.got == head && frame.bytes > 0) {
        connection.room = is_current(frame) ? receiver_->find_room(from, frame) : nullptr;
        if (connection.room == nullptr) connection.bytes.resize(static_cast<size_t>(frame.bytes));
      } else if (connection.got >= head &&
                 connection.got == head + static_cast<size_t>(frame.bytes)) {
        connection.got = 0;
        deliver(from, frame, std::exchange(connection.room, nullptr),
                std::exchange(connection.bytes, {}));
      }
    }
  }
  bool is_current(const TcpFrame& frame) const {
    return receiver_ != nullptr && frame.world == world_ && frame.kind != TcpFrame::Kind::text;
  }
  void deliver(int from, const TcpFrame& frame, Request* room, std::string bytes) {
    if (frame.kind == TcpFrame::Kind::text) {
      texts_[static_cast<size_t>(from)].push_back(std::move(bytes));
    } else if (frame.kind == TcpFrame::Kind::goodbye) {
      connections_[static_cast<size_t>(from)].said_goodbye = true;
      if (lost_ < 0) lost_ = static_cast<int>(frame.tag);
    } else if (is_current(frame)) {
      receiver_->arrived(from, frame, room, std::move(bytes));
    } else if (frame.world > world_) {
      early_.push_back({from, frame, std::move(bytes)});
    }
  }
  void lose(Connection& connection) {
    connection.is_open = false;
    connection.out.clear();
    if (!connection.said_goodbye && lost_ < 0) lost_ = static_cast<int>(connection.peer);
  }

  int rank_;
  std::vector<ProcessAddress> processes_;  // by rank
  std::vector<Connection> connections_;    // by rank; the last is the other end of our own
  TcpReceiver* receiver_ = nullptr;
  int32_t world_ = 0;
  std::deque<Early> early_;
  std::vector<std::deque<std::string>> texts_;  // by rank
  int lost_ = -1;
};

}  // namespace yotta
