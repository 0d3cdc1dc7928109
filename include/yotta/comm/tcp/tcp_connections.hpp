// TCP connections: sockets, and the frames that processes send each other through them.
//
// Sockets: what is needed of the operating system.
//
//     listen_at(port)         a socket that others can connect to; port 0: any free one
//     connect_to(address)     one attempt; says why it failed
//     accept_from(socket)     the next process that connects
//     write_text, read_text   a text with its length in front, with a deadline: for the first
//                             exchange, before any frames
//
// All sockets are non-blocking: a call does what can be done now, and poll(2) waits, as long as we
// want and no longer. Small messages leave at once (TCP_NODELAY): otherwise the kernel would wait
// for more of them, up to 40 ms.
// IPv4 and IPv6.
//
// TcpMesh: the connections of a process to all others, and the frames on them.
//
//   |  TcpFrame: kind, world, group, tag, count, type, bytes, id  |  so many bytes  |  TcpFrame ...
//
// A connection is an ordered stream of bytes without borders, so each message has a header that
// says how many bytes follow. There is no helper thread: a rank that waits calls progress(). It
// sleeps in poll(2) until bytes can be read or written, reads and writes what it can, and gives
// whole frames to the transport of the current run. Bytes go straight from the sender's array into
// the kernel, and from there into the receiver's array, if its receive is posted in time. The
// process itself is a peer like the others, by a pair of sockets in the kernel.
//
// A process that ends well sends a goodbye frame. If a connection closes without one, its process
// is lost: killed, or crashed. A host that vanishes (power, cable) closes nothing, so the kernel
// asks now and then whether it is there (keepalive).
// Cost of a frame: 48 bytes, and system calls: one to write it; to read it one for the header, one
// for the bytes if all have arrived, and one that finds no more.
// References: socket(7), tcp(7), getaddrinfo(3); Stevens, Fenner, Rudoff, UNIX Network Programming,
// vol. 1.
#pragma once

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "yotta/comm/engine/transport.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"

namespace yotta {

// --- sockets ---

// A file descriptor that is closed with its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}
  double left() const {
    return std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count();
  }

 private:
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

// Waits until a socket can be read (POLLIN) or written (POLLOUT), or has failed; false: the
// deadline has passed.
inline bool wait_for(const Socket& socket, short events, const Deadline& deadline) {
  for (;;) {
    pollfd one{socket.fd(), events, 0};
    const int left = static_cast<int>(std::clamp(deadline.left(), 0.0, 1e6) * 1000);
    const int ready = poll(&one, 1, left);
    if (ready > 0) return true;
    if (ready == 0 && deadline.left() <= 0) return false;
  }
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
// The addresses of a host, or (null) those of this host to listen at; empty, with the reason, if it
// has none.
inline AddressList find_addresses(const char* host, int port, std::string& why) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | (host == nullptr ? AI_PASSIVE : 0);
  const int code = getaddrinfo(host, std::to_string(port).c_str(), &wanted, &found);
  if (code != 0) why = gai_strerror(code);
  return {found, freeaddrinfo};
}

// setsockopt(2) with a number.
inline void set_option(const Socket& socket, int level, int option, int value = 1) {
  setsockopt(socket.fd(), level, option, &value, sizeof value);
}
// A new socket of an address's family, not connected. If it is not open, errno says why.
inline Socket open_socket(const addrinfo& address) {
  Socket made(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.is_open()) set_option(made, IPPROTO_TCP, TCP_NODELAY);
  return made;
}

// An address in numbers.
inline TcpAddress numbers_of(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0";
  getnameinfo(address, length, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  std::string_view numbers = host;
  constexpr std::string_view v4_in_v6 = "::ffff:";
  if (numbers.starts_with(v4_in_v6)) numbers.remove_prefix(v4_in_v6.size());
  return {std::string(numbers), std::atoi(port)};
}
// One end of a connection: getsockname's or getpeername's.
template <class Name>
TcpAddress end_of(const Socket& socket, Name name) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  return name(socket.fd(), address, &length) == 0 ? numbers_of(address, length) : TcpAddress();
}
inline TcpAddress own_end(const Socket& socket) { return end_of(socket, getsockname); }
inline TcpAddress other_end(const Socket& socket) { return end_of(socket, getpeername); }

// Listens at every address of this host. Errors: the port is taken, or not permitted.
inline Socket listen_at(int port, Where where = Where::current()) {
  std::string why;
  const AddressList addresses = find_addresses(nullptr, port, why);
  for (const int family : {AF_INET6, AF_INET})  // one socket for IPv6 accepts IPv4 too
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      if (each->ai_family != family) continue;
      Socket made = open_socket(*each);
      if (!made.is_open()) {
        if (why.empty()) why = std::strerror(errno);
        continue;
      }
      set_option(made, SOL_SOCKET, SO_REUSEADDR);
      if (family == AF_INET6) set_option(made, IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (bind(made.fd(), each->ai_addr, each->ai_addrlen) == 0 && listen(made.fd(), 1024) == 0)
        return made;
      why = std::strerror(errno);
    }
  fail_as<CommError>(where, "cannot listen at port {}: {}", port,
                     why.empty() ? "there is no network" : why);
}

// Makes one attempt. If it fails the socket is not open, and `why` holds the reason.
inline Socket connect_to(const TcpAddress& to, const Deadline& deadline, std::string& why) {
  const AddressList addresses = find_addresses(to.host.c_str(), to.port, why);
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Socket made = open_socket(*each);
    int code =
        made.is_open() && connect(made.fd(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      socklen_t length = sizeof code;
      if (!wait_for(made, POLLOUT, deadline))
        code = ETIMEDOUT;
      else
        getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &code, &length);
    }
    const TcpAddress own = own_end(made), other = other_end(made);
    if (code == 0 && own.text() == other.text())
      code = ECONNREFUSED;  // to itself: a free port can be both ends
    if (code == 0) return made;
    why = std::strerror(code);
  }
  return Socket();
}

// The next process that connects; not open if none has by the deadline.
inline Socket accept_from(const Socket& listener, const Deadline& deadline) {
  do {
    if (!wait_for(listener, POLLIN, deadline)) break;
    Socket accepted(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.is_open()) {
      set_option(accepted, IPPROTO_TCP, TCP_NODELAY);
      return accepted;
    }
    poll(nullptr, 0, 10);  // no descriptor is free for it now; try again in 10 ms
  } while (deadline.left() > 0);
  return Socket();
}

// Writes all of it. False: the other end has closed, or it took too long.
inline bool write_all(const Socket& socket, std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t written = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (written < 0 && !wait_for(socket, POLLOUT, deadline)) return false;
  }
  return true;
}
// Fills `bytes`. False: as for write_all.
inline bool read_all(const Socket& socket, std::span<char> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got < 0 && !wait_for(socket, POLLIN, deadline)) return false;
  }
  return true;
}

// What goes before a text: a mark that no other program sends, and the length.
struct TextHeader {
  std::array<char, 8> mark = {'y', 'o', 't', 't', 'a', ' ', '1', '\n'};
  uint64_t length = 0;
};
inline bool write_text(const Socket& socket, const std::string& text, const Deadline& deadline) {
  const TextHeader header{.length = text.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return write_all(socket, bytes + text, deadline);
}
// Empty: none came by the deadline, or what came is not from this library.
inline std::optional<std::string> read_text(const Socket& socket, const Deadline& deadline) {
  TextHeader header;
  const std::span<char> bytes(reinterpret_cast<char*>(&header), sizeof header);
  if (!read_all(socket, bytes, deadline)) return {};
  if (header.mark != TextHeader().mark || header.length > (uint64_t{1} << 30)) return {};
  std::string text(header.length, ' ');
  if (!read_all(socket, text, deadline)) return {};
  return text;
}

// --- frames ---

struct TcpFrame {
  enum class Kind : uint8_t { message, offer, wanted, large, control, text, goodbye };
  Kind kind = Kind::text;
  DType dtype = DType::u8;
  int32_t world = 0;   // the number of the run
  uint64_t group = 0;  // WorldGroup::id
  int64_t tag =
      0;  // as Request::tag; of a control message its kind; of a goodbye the lost rank, or -1
  int64_t count = 0;  // of elements, of the whole message
  int64_t bytes = 0;  // that follow
  uint64_t id = 0;    // of an offer, and of the frames that answer it
};
static_assert(sizeof(TcpFrame) == 48);

// The transport of the current run.
class TcpReceiver {
 public:
  virtual ~TcpReceiver() = default;
  // The receive that the bytes of this frame are for. Null: none is posted yet.
  virtual Request* find_recv(int from, const TcpFrame& frame) = 0;
  // A frame has arrived: in that request's data, or in `bytes`.
  virtual void arrived(int from, const TcpFrame& frame, Request* recv, std::string bytes) = 0;
  // The kernel has taken all of it.
  virtual void sent(Request& request) = 0;
};

// --- connections to all processes ---

// This process, and a connection to each other one (tcp_rendezvous.hpp makes them).
struct TcpPeers {
  int rank = 0;
  std::vector<Socket> sockets;            // by rank; its own is not open
  std::vector<ProcessAddress> processes;  // by rank
};

class TcpMesh {
 public:
  explicit TcpMesh(TcpPeers peers) : rank_(peers.rank), processes_(std::move(peers.processes)) {
    for (Socket& each : peers.sockets) {
      enable_keepalive(each);
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
        if (out.written > 0)  // the other side expects the rest
          out.own.assign(reinterpret_cast<const char*>(std::exchange(out.data, nullptr)),
                         static_cast<size_t>(out.frame.bytes));
        else
          each.out.erase(each.out.begin() + static_cast<std::ptrdiff_t>(i--));
      }
      if (each.recv == &request) {
        each.recv = nullptr;
        each.bytes.assign(reinterpret_cast<const char*>(request.data.bytes), each.got - head);
        each.bytes.resize(static_cast<size_t>(each.frame.bytes));
      }
    }
  }

  // Reads and writes what it can; sleeps until it can, for so many seconds at most.
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

  // --- texts: for what processes tell each other outside of runs ---
  void send_text(int to, std::string text) { send(to, TcpFrame(), std::move(text)); }
  // The next text that has come from a process, if any.
  std::optional<std::string> take_text(int from) {
    std::deque<std::string>& texts = texts_[static_cast<size_t>(from)];
    if (texts.empty()) return {};
    std::string text = std::move(texts.front());
    texts.pop_front();
    return text;
  }

  // Is there anything that the kernel has not taken yet?
  bool is_sending() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const Connection& each) { return !each.out.empty(); });
  }
  // The process that has ended without a goodbye, or that another process has lost; -1: none.
  int lost() const { return lost_; }
  bool is_gone(int other) const { return !connections_[static_cast<size_t>(other)].is_open; }
  // The last frame to all. Frames that are under way get some seconds.
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
    size_t written = 0;  // bytes, with the header
  };
  struct Connection {
    Socket socket;
    std::ptrdiff_t peer;
    bool is_open = true, said_goodbye = false;
    std::deque<Outgoing> out = {};
    TcpFrame frame = {};      // being read
    size_t got = 0;           // bytes of it, with the header
    Request* recv = nullptr;  // whose data the bytes go to
    std::string bytes = {};   // if there is no such receive
  };
  struct Early {  // a frame of a run that this process has not begun
    int from;
    TcpFrame frame;
    std::string bytes;
  };
  static constexpr size_t head = sizeof(TcpFrame);

  // If nothing comes for 5 s, this kernel asks the other host's, every 5 s. After five questions
  // without an answer, 30 s in all, the connection is closed. A process that computes, or is
  // stopped, stays connected: its kernel answers.
  static void enable_keepalive(const Socket& socket) {
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  }

  void put(int to, Outgoing out) {
    Connection& connection = connections_[static_cast<size_t>(to)];
    if (!connection.is_open) return;  // its process has ended, and all ranks will be told
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
      if (written < 0) return;  // full, or broken, which read() will find out
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
        to = (connection.recv != nullptr ? reinterpret_cast<char*>(connection.recv->data.bytes)
                                         : connection.bytes.data()) +
             (connection.got - head);
      const ssize_t got = recv(connection.socket.fd(), to, whole - connection.got, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) return lose(connection);
      connection.got += static_cast<size_t>(got);
      const int from = static_cast<int>(connection.peer);
      if (connection.got == head && frame.bytes > 0) {
        connection.recv = is_current(frame) ? receiver_->find_recv(from, frame) : nullptr;
        if (connection.recv == nullptr) connection.bytes.resize(static_cast<size_t>(frame.bytes));
      } else if (connection.got >= head &&
                 connection.got == head + static_cast<size_t>(frame.bytes)) {
        connection.got = 0;
        deliver(from, frame, std::exchange(connection.recv, nullptr),
                std::exchange(connection.bytes, {}));
      }
    }
  }
  bool is_current(const TcpFrame& frame) const {
    return receiver_ != nullptr && frame.world == world_ && frame.kind != TcpFrame::Kind::text;
  }
  void deliver(int from, const TcpFrame& frame, Request* recv, std::string bytes) {
    if (frame.kind == TcpFrame::Kind::text) {
      texts_[static_cast<size_t>(from)].push_back(std::move(bytes));
    } else if (frame.kind == TcpFrame::Kind::goodbye) {
      connections_[static_cast<size_t>(from)].said_goodbye = true;
      if (lost_ < 0) lost_ = static_cast<int>(frame.tag);
    } else if (is_current(frame)) {
      receiver_->arrived(from, frame, recv, std::move(bytes));
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
  std::vector<Connection> connections_;  // by rank; the last is the other end of this process's own
  TcpReceiver* receiver_ = nullptr;
  int32_t world_ = 0;
  std::deque<Early> early_;
  std::vector<std::deque<std::string>> texts_;  // by rank
  int lost_ = -1;
};

}  // namespace yotta
