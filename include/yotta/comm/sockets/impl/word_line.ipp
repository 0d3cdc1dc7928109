// The bodies of comm/sockets/word_line.hpp.
#pragma once

#include "yotta/comm/sockets/word_line.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace yotta {

YOTTA_INLINE Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

namespace detail {
inline Descriptor expect_descriptor(int number, const char* what, Where where) {
  if (number >= 0) return Descriptor(number);
  fail(where, "{}: {}; fewer ranks need fewer, and `ulimit -n` says how many a process may have",
       what, std::strerror(errno));
}
}  // namespace detail

YOTTA_INLINE std::pair<Descriptor, Descriptor> joined_sockets(int type, Where where) {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) ends = {-1, -1};
  return {detail::expect_descriptor(ends[0], "cannot make a pair of sockets", where),
          Descriptor(ends[1])};
}

YOTTA_INLINE Descriptor file_in_memory(const std::string& bytes, Where where) {
  Descriptor file = detail::expect_descriptor(memfd_create("yotta", MFD_CLOEXEC),
                                              "cannot make a file in memory", where);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(file.number(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno != EINTR)
      fail(where, "cannot write {} bytes to a file in memory: {}", bytes.size(),
           std::strerror(errno));
    if (count > 0) done += static_cast<size_t>(count);
  }
  return file;
}

YOTTA_INLINE std::string bytes_of_file(const Descriptor& file, Where where) {
  struct stat about = {};
  if (fstat(file.number(), &about) != 0)
    fail(where, "cannot read a file in memory: {}", std::strerror(errno));
  std::string bytes(static_cast<size_t>(about.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        pread(file.number(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count == 0 || (count < 0 && errno != EINTR))
      fail(where, "a file in memory ends after {} of {} bytes", done, bytes.size());
    if (count > 0) done += static_cast<size_t>(count);
  }
  return bytes;
}

YOTTA_INLINE Descriptor copy_of(const Descriptor& file, Where where) {
  return detail::expect_descriptor(fcntl(file.number(), F_DUPFD_CLOEXEC, 0),
                                   "cannot copy a descriptor", where);
}

YOTTA_INLINE int take_number(std::string& text) {
  int number = -1;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return -1;
  text.erase(0, static_cast<size_t>(after - text.data()) + (after != end ? 1 : 0));
  return number;
}

namespace detail {
// Room for one descriptor beside a word.
union OneDescriptor {
  cmsghdr align;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};
inline ssize_t send_word(int to, const std::string& word, int descriptor, int flags) {
  iovec text{const_cast<char*>(word.data()), std::min(word.size(), WordLine::most_bytes)};
  msghdr message = {};
  message.msg_iov = &text, message.msg_iovlen = 1;
  OneDescriptor beside = {};
  if (descriptor >= 0) {
    message.msg_control = beside.bytes.data(), message.msg_controllen = beside.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  return sendmsg(to, &message, flags | MSG_NOSIGNAL);
}
inline bool may_succeed_later() {  // ETOOMANYREFS: too many descriptors are on their way
  return errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS;
}
}  // namespace detail

YOTTA_INLINE void WordLine::put(std::string word, Descriptor descriptor) {
  if (!is_open()) return;
  waiting_.push_back({std::move(word), std::move(descriptor)});
  flush();
}

YOTTA_INLINE void WordLine::put_newest(const std::string& what, const std::string& rest,
                                       Descriptor descriptor) {
  std::erase_if(waiting_, [&](const Waiting& each) {
    return each.word == what || each.word.starts_with(what + " ");
  });
  put(rest.empty() ? what : what + " " + rest, std::move(descriptor));
}

YOTTA_INLINE void WordLine::flush() {
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    if (detail::send_word(number(), next.word, next.descriptor.number(), MSG_DONTWAIT) < 0) {
      if (detail::may_succeed_later()) return;
      return waiting_.clear();  // nobody reads it any more
    }
    waiting_.pop_front();
  }
}

YOTTA_INLINE void WordLine::send(const std::string& word, const Descriptor& descriptor) {
  while (is_open() && detail::send_word(number(), word, descriptor.number(), 0) < 0 &&
         detail::may_succeed_later())
    if (errno != EINTR) poll(nullptr, 0, 1);
}

YOTTA_INLINE std::optional<LineWord> WordLine::take() {
  std::array<char, most_bytes> bytes;
  for (ssize_t got = 0; is_open();) {
    iovec text{bytes.data(), bytes.size()};
    detail::OneDescriptor beside = {};
    msghdr message = {};
    message.msg_iov = &text, message.msg_iovlen = 1;
    message.msg_control = beside.bytes.data(), message.msg_controllen = beside.bytes.size();
    got = recvmsg(number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;  // there may be more to read
    if (got < 0 && errno == EAGAIN) return {};
    if (got <= 0) {
      end_ = Descriptor();
      waiting_.clear();
      return {};
    }
    LineWord word;
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof number);
      word.descriptor = Descriptor(number);
    }
    std::string line(bytes.data(), static_cast<size_t>(got));
    if (line.ends_with('\n')) line.pop_back();
    const size_t space = std::min(line.find(' '), line.size());
    word.what = line.substr(0, space);
    word.rest = line.substr(std::min(space + 1, line.size()));
    return word;
  }
  return {};
}

YOTTA_INLINE void await_words(const std::vector<std::shared_ptr<WordLine>>& lines,
                              int milliseconds) {
  std::vector<pollfd> polls;
  for (const auto& each : lines)
    if (each->is_open())
      polls.push_back(
          {each->number(), static_cast<short>(each->has_waiting() ? POLLIN | POLLOUT : POLLIN), 0});
  poll(polls.data(), polls.size(), milliseconds);
}

}  // namespace yotta
