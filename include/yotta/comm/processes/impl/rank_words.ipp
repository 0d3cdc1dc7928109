// The bodies of comm/processes/rank_words.hpp.
#pragma once

#include "yotta/comm/processes/rank_words.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "yotta/core/error.hpp"

namespace yotta {

namespace rank_words {

// A word is shorter than this; ranks send nothing longer.
constexpr size_t most_bytes = 64 * 1024;

// One end of a connection, and what has come on it.
struct Line {
  int fd = -1;
  std::string received = {};
  int rank = -1;  // at the other end; -1: it has not said
};

inline sockaddr_un address_of(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // a first byte of 0: no file
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}
inline bool is_own_user(int fd) {
  ucred other{};
  socklen_t length = sizeof other;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == geteuid();
}
// On one line, and back.
inline std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) text[at] = '\f';
  return text.substr(0, most_bytes / 2);
}
inline std::string unescaped(std::string text) {
  std::replace(text.begin(), text.end(), '\f', '\n');
  return text;
}
inline void write_line(int fd, const std::string& text) {
  const std::string line = text + '\n';
  static_cast<void>(send(fd, line.data(), line.size(), MSG_NOSIGNAL));
}
// False: the other end has closed it, or sends a line that does not end.
inline bool receive(Line& line) {
  char bytes[4096];
  for (;;) {
    const ssize_t got = recv(line.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) line.received.append(bytes, static_cast<size_t>(got));
    if (line.received.size() > most_bytes || got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN;
  }
}
// "says 2 no memory" as its first word, its number and the rest.
struct Word {
  std::string what;
  int rank = -1;
  std::string rest;
};
inline std::optional<Word> take_word(std::string& received) {
  const size_t end = received.find('\n');
  if (end == received.npos) return {};
  const std::string line = received.substr(0, end);
  received.erase(0, end + 1);
  Word word;
  const size_t space = std::min(line.find(' '), line.size());
  word.what = line.substr(0, space);
  const char* const begin = line.data() + std::min(space + 1, line.size());
  const auto [after, error] = std::from_chars(begin, line.data() + line.size(), word.rank);
  if (error != std::errc()) word.rank = -1;
  const auto rest = static_cast<size_t>(after - line.data());
  word.rest = unescaped(line.substr(std::min(rest + 1, line.size())));
  return word;
}

}  // namespace rank_words

struct RankWords::State {
  std::string name;
  int listener = -1;
  std::vector<rank_words::Line> lines;
  std::vector<char> well;  // by rank
  std::vector<std::string> said;

  void accept_all() {
    for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      if (!rank_words::is_own_user(fd) || lines.size() > 4 * well.size() + 16)
        close(fd);
      else
        lines.push_back({fd});
    }
  }
  void take(rank_words::Line& line, const rank_words::Word& word) {
    const bool is_rank = word.rank >= 0 && word.rank < static_cast<int>(well.size());
    if (!is_rank || (line.rank >= 0 && line.rank != word.rank)) return;
    line.rank = word.rank;
    if (word.what == "well") well[static_cast<size_t>(word.rank)] = 1;
    if (word.what == "says" && std::find(said.begin(), said.end(), word.rest) == said.end())
      said.push_back(word.rest);
  }
};

YOTTA_INLINE RankWords::RankWords(int ranks) : state_(std::make_unique<State>()) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = 0;
  state_->name = fmt::format("yotta-{}-{:016x}", getpid(), number);
  state_->well.resize(static_cast<size_t>(ranks));
  socklen_t length = 0;
  const sockaddr_un address = rank_words::address_of(state_->name, length);
  state_->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (state_->listener < 0 ||
      bind(state_->listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(state_->listener, 1024) != 0)
    fail(Where::current(), "cannot listen for the words of ranks: {}", std::strerror(errno));
}
YOTTA_INLINE RankWords::~RankWords() {
  for (const rank_words::Line& each : state_->lines) close(each.fd);
  if (state_->listener >= 0) close(state_->listener);
}

YOTTA_INLINE std::string RankWords::name() const { return state_->name; }

YOTTA_INLINE void RankWords::read(int milliseconds) {
  std::vector<pollfd> polls = {{state_->listener, POLLIN, 0}};
  for (const rank_words::Line& each : state_->lines) polls.push_back({each.fd, POLLIN, 0});
  poll(polls.data(), polls.size(), milliseconds);
  state_->accept_all();
  for (size_t i = state_->lines.size(); i-- > 0;) {
    rank_words::Line& line = state_->lines[i];
    const bool open = rank_words::receive(line);
    while (const std::optional<rank_words::Word> word = rank_words::take_word(line.received))
      state_->take(line, *word);
    if (open) continue;
    close(line.fd);
    state_->lines.erase(state_->lines.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

YOTTA_INLINE bool RankWords::ended_well(int rank) const {
  return state_->well[static_cast<size_t>(rank)] != 0;
}
YOTTA_INLINE const std::vector<std::string>& RankWords::said() const { return state_->said; }

struct OwnWords::State {
  int rank = 0, fd = -1;
};

YOTTA_INLINE OwnWords::OwnWords(int rank) : state_(std::make_unique<State>()) {
  state_->rank = rank;
  const char* const name = std::getenv(words_variable);
  if (name == nullptr || *name == '\0' || std::strlen(name) > 100) return;
  socklen_t length = 0;
  const sockaddr_un address = rank_words::address_of(name, length);
  int& fd = state_->fd;
  fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      !rank_words::is_own_user(fd))
    close(std::exchange(fd, -1));
}
YOTTA_INLINE OwnWords::~OwnWords() {
  if (state_->fd >= 0) close(state_->fd);
}

YOTTA_INLINE bool OwnWords::has_listener() const { return state_->fd >= 0; }
YOTTA_INLINE void OwnWords::say_well() {
  if (has_listener()) rank_words::write_line(state_->fd, fmt::format("well {}", state_->rank));
}
YOTTA_INLINE bool OwnWords::say(const std::string& error) {
  if (!has_listener()) return false;
  rank_words::write_line(state_->fd,
                         fmt::format("says {} {}", state_->rank, rank_words::escaped(error)));
  return true;
}

}  // namespace yotta
