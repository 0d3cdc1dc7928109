// Sockets: what the TCP transport needs of the operating system, and no more.
//
//     listen_at(port)       a socket that others can connect to; port 0: any free one
//     connect_to(address)   one attempt; says why not
//     accept_from(socket)   the next who has connected
//     write_text, read_text a text with its length in front, with a deadline: for the first words, before any messages
//
// All sockets are non-blocking: a call does what can be done now, and poll(2) waits, as long as we want and no longer.
// Small messages leave at once (TCP_NODELAY): the kernel would else wait for more of them, up to 40 ms.
// IPv4 and IPv6. References: socket(7), tcp(7), getaddrinfo(3); Stevens, Fenner, Rudoff, UNIX Network Programming, vol. 1.
#pragma once

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "yotta/comm/failures.hpp"

namespace yotta {

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

struct TcpAddress {
  std::string host;  // a name, or numbers
  int port = 0;

  std::string text() const { return fmt::format("{}:{}", host, port); }
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

// Waits until a socket can be read (POLLIN) or written (POLLOUT), or has failed; false: not by then.
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
// The addresses of a host, or (null) of this one to listen at; empty, with the reason, if it has none.
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
// A new socket of an address's family, connected to nothing; not open, and errno says why, if there is none to be had.
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

// At every address of this host. Errors: the port is taken, or not for us.
inline Socket listen_at(int port, Where where = Where::current()) {
  std::string why;
  const AddressList addresses = find_addresses(nullptr, port, why);
  for (const int family : {AF_INET6, AF_INET})  // one socket for IPv6 takes IPv4's guests too
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

// One attempt. If it fails the socket is not open, and `why` says so.
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

// The next who has connected; not open if nobody has by then.
inline Socket accept_from(const Socket& listener, const Deadline& deadline) {
  do {
    if (!wait_for(listener, POLLIN, deadline)) break;
    Socket guest(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (guest.is_open()) {
      set_option(guest, IPPROTO_TCP, TCP_NODELAY);
      return guest;
    }
    poll(nullptr, 0, 10);  // no descriptor is free for who waits there: in 10 ms, perhaps
  } while (deadline.left() > 0);
  return Socket();
}

// All of it, or false: the other end has closed, or it took too long.
inline bool write_all(const Socket& socket, std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t written = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (written < 0 && !wait_for(socket, POLLOUT, deadline)) return false;
  }
  return true;
}
// Fills `bytes`, or false: as write_all.
inline bool read_all(const Socket& socket, std::span<char> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got < 0 && !wait_for(socket, POLLIN, deadline)) return false;
  }
  return true;
}

// A text, with a word in front that no other program says, and its length.
struct TextHead {
  std::array<char, 8> word = {'y', 'o', 't', 't', 'a', ' ', '1', '\n'};
  uint64_t length = 0;
};
inline bool write_text(const Socket& socket, const std::string& text, const Deadline& deadline) {
  const TextHead head{.length = text.size()};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return write_all(socket, bytes + text, deadline);
}
// Empty: none came by then, or what came was not ours.
inline std::optional<std::string> read_text(const Socket& socket, const Deadline& deadline) {
  TextHead head;
  const std::span<char> bytes(reinterpret_cast<char*>(&head), sizeof head);
  if (!read_all(socket, bytes, deadline)) return {};
  if (head.word != TextHead().word || head.length > (uint64_t{1} << 30)) return {};
  std::string text(head.length, ' ');
  if (!read_all(socket, text, deadline)) return {};
  return text;
}

}  // namespace yotta
