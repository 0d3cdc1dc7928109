// The calls of ZeroMQ and of the kernel that ranks over TCP need: addresses, messages, keys, events
// of connections, descriptors.
//
//     find_addresses("node1", why)      {"10.0.0.7"}
//     CurveKeys(key)                    the pair of keys of CURVE that a job's key makes
//     SocketEvents(context, s, "s")     what ZeroMQ's thread has noticed on a socket's connections
//     has_shown_key(fd)                 is this connection past the handshake?
//
// The last asks the kernel how many bytes have left: to a connection that has not shown the key
// ZeroMQ sends a greeting of 64 bytes and a WELCOME of 170, and no more.
// Cost: one or two calls of the kernel each.
// References: ZeroMQ RFCs 23 (ZMTP 3.0) and 26 (CurveZMQ); zmq_socket_monitor(3); tcp(7), TCP_INFO;
// socket(7), SO_ATTACH_FILTER.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"

namespace yotta {

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
inline std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int>(std::clamp(seconds, 0.0, 1e5) * 1000));
}

// --- addresses ---

// The addresses of a host in numbers; empty, with the reason, if it has none.
inline std::vector<std::string> find_addresses(const std::string& host, std::string& why) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  std::vector<std::string> addresses;
  if (code != 0) why = gai_strerror(code);
  for (const addrinfo* each = found; code == 0 && each != nullptr; each = each->ai_next) {
    char numbers[NI_MAXHOST] = "";
    if (getnameinfo(each->ai_addr, each->ai_addrlen, numbers, sizeof numbers, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      addresses.emplace_back(numbers);
  }
  if (found != nullptr) freeaddrinfo(found);
  return addresses;
}
inline std::string endpoint(const std::string& numbers, int port) {
  const bool v6 = numbers.find(':') != numbers.npos;
  return v6 ? fmt::format("tcp://[{}]:{}", numbers, port)
            : fmt::format("tcp://{}:{}", numbers, port);
}
// "::ffff:10.0.0.1" is IPv4's 10.0.0.1.
inline std::string plain_address(std::string numbers) {
  constexpr std::string_view v4_in_v6 = "::ffff:";
  return numbers.starts_with(v4_in_v6) ? numbers.substr(v4_in_v6.size()) : numbers;
}
inline bool is_loopback(const std::string& numbers) {
  return numbers.starts_with("127.") || numbers == "::1";
}
// Where the other end of a connection is. Empty if it is gone already, as one is that begins with
// words that are not ZeroMQ's.
inline TcpAddress other_end(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0";
  if (getpeername(fd, address, &length) == 0)
    getnameinfo(address, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return {plain_address(host), std::atoi(port)};
}

// --- ZeroMQ's calls, which a signal may interrupt ---

// Waits until one of them is ready. False: none is, or a signal has come.
inline bool wait_for(std::span<zmq::pollitem_t> items, double seconds) {
  const int ready = zmq_poll(items.data(), static_cast<int>(items.size()),
                             static_cast<long>(milliseconds_of(seconds).count()));
  return ready > 0;
}
// Never block. False: not now.
inline bool try_receive(zmq::socket_t& socket, zmq::message_t& message) {
  return zmq_msg_recv(message.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0;
}
inline bool try_send(zmq::socket_t& socket, zmq::message_t& message) {
  return zmq_msg_send(message.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0;
}
// The host that a message has come from.
inline std::string host_of(zmq::message_t& message) {
  const char* const host = zmq_msg_gets(message.handle(), "Peer-Address");
  return host == nullptr ? "an unknown address" : plain_address(host);
}

// --- the key ---

struct CurveKeys {
  std::string secret, open;  // 40 characters each, as ZeroMQ takes them
  std::array<uint8_t, 32> open_bytes = {};

  // Of the key's 64 hexadecimal digits.
  explicit CurveKeys(const std::string& key) {
    std::array<uint8_t, 32> bytes;
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(std::stoi(key.substr(2 * i, 2), nullptr, 16));
    char text[41] = "", other[41] = "";
    zmq_z85_encode(text, bytes.data(), bytes.size());
    if (zmq_curve_public(other, text) != 0)
      fail(Where::current(), "this ZeroMQ was built without CURVE, its encryption");
    secret = text;
    open = other;
    zmq_z85_decode(open_bytes.data(), other);
  }
};

// In a time that does not depend on what is equal.
inline bool are_equal(const uint8_t* some, const uint8_t* others, size_t count) {
  unsigned different = 0;
  for (size_t i = 0; i < count; ++i) different |= static_cast<unsigned>(some[i] ^ others[i]);
  return different == 0;
}

// --- events ---

// What ZeroMQ's own thread has noticed on a socket's connections, in order.
class SocketEvents {
 public:
  struct Event {
    uint16_t kind = 0;  // ZMQ_EVENT_...
    uint32_t value = 0;
  };
  // `watched` must outlive it.
  SocketEvents(zmq::context_t& context, zmq::socket_t& watched, const std::string& name)
      : watched_(watched.handle()), socket_(context, zmq::socket_type::pair) {
    const std::string place = "inproc://" + name;
    socket_.set(zmq::sockopt::rcvhwm, 0);  // ZeroMQ's thread would wait for one that does not read
    if (zmq_socket_monitor(watched.handle(), place.c_str(), ZMQ_EVENT_ALL) != 0)
      throw zmq::error_t();
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(place);
  }
  SocketEvents(const SocketEvents&) = delete;
  SocketEvents& operator=(const SocketEvents&) = delete;
  ~SocketEvents() { zmq_socket_monitor(watched_, nullptr, 0); }
  zmq::socket_t& socket() { return socket_; }
  // The next one; empty: none by the deadline.
  std::optional<Event> next(double seconds = 0) {
    zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
    if (seconds > 0 && !wait_for({&item, 1}, seconds)) return {};
    zmq::message_t words, place;
    if (!try_receive(socket_, words)) return {};
    static_cast<void>(try_receive(socket_, place));
    Event event;
    if (words.size() < 6) return {};
    std::memcpy(&event.kind, words.data(), 2);
    std::memcpy(&event.value, words.data<char>() + 2, 4);
    return event;
  }

 private:
  void* watched_;
  zmq::socket_t socket_;
};

// --- descriptors ---

// Lets this process have as many descriptors as its user may give it. Returns how many those are.
inline int64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlimit most{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &most) == 0) limit = most;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

// Looks at a descriptor that another thread may close at any time: at a duplicate, which stays the
// same connection. The duplicate takes the place of a descriptor that is kept for this, so it is
// possible even when the process has no more.
class BorrowedDescriptor {
 public:
  BorrowedDescriptor() = default;
  BorrowedDescriptor(const BorrowedDescriptor&) = delete;
  BorrowedDescriptor& operator=(const BorrowedDescriptor&) = delete;
  ~BorrowedDescriptor() {
    close(nothing_);
    close(place_);
  }
  // Returns code(duplicate), or `otherwise` if there is no such descriptor.
  template <class Code, class Result>
  Result look_at(int fd, Result otherwise, Code code) {
    if (fd < 0 || dup3(fd, place_, O_CLOEXEC) < 0) return otherwise;
    Result result = code(place_);
    dup3(nothing_, place_, O_CLOEXEC);
    return result;
  }

 private:
  int nothing_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int place_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
};

inline int port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, address, &length) != 0) return 0;
  if (address->sa_family == AF_INET)
    return ntohs(reinterpret_cast<sockaddr_in*>(address)->sin_port);
  if (address->sa_family != AF_INET6) return 0;
  return ntohs(reinterpret_cast<sockaddr_in6*>(address)->sin6_port);
}
// Has ZeroMQ sent more on this connection than it sends to one that has not shown the key? (Also
// true where the kernel, older than Linux 4.19, does not count.)
inline bool has_shown_key(int fd) {
  constexpr uint64_t greeting = 64, welcome = 170;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      length < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans)
    return true;
  return info.tcpi_bytes_sent - info.tcpi_bytes_retrans > greeting + welcome;
}
// From here on the kernel drops what would become a connection to this socket; those that stand
// stay. (ZeroMQ would close those too if the socket were unbound.)
inline bool refuse_new_connections(int listening_fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop};
  return setsockopt(listening_fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace yotta
