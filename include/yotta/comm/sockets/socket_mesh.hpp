// SocketMesh: a process of a job, with a socket to each other process, and the frames on them
// (socket_frames.hpp).
//
//     rank 0 ═══ rank 1        ═══  a pair of sockets (socketpair) that the starter has made and
//        ╲        ╱                 given to both (job_line.hpp): it has no name and no port, so
//         ╲      ╱                  nothing listens, and no other process can reach it
//          rank 2
//
// There is no helper thread: a rank that waits calls progress(). It sleeps in the kernel until
// something comes or can leave, moves what it can, and gives whole frames to the transport of the
// current run. What is sent leaves at once, straight from the sender's array, as far as the socket
// takes it; the rest waits there. What a rank sends to itself takes the same way, without a socket.
//
// A process that ends well sends a goodbye frame. One is lost if
//     its socket ends without one: it was killed, or has crashed. What it had sent comes first;
//     the process that has started it says so (job_line.hpp).
// Cost of a frame: 48 bytes, and two copies by the kernel.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <memory>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/processes/link_throttle.hpp"
#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/sockets/job_line.hpp"
#include "yotta/comm/sockets/socket_frames.hpp"
#include "yotta/core/cpu/measure.hpp"

namespace yotta {

// The processes of a mesh.
struct SocketPeers {
  int rank = 0;
  std::vector<ProcessAddress> processes = {};  // by rank
  std::vector<Descriptor> sockets = {};        // to each of them; to this one none
  std::shared_ptr<JobLine> line = {};          // to the starter; null: none
  int epoch = 1;                               // as it counts them
};

class SocketMesh {
 public:
  explicit SocketMesh(SocketPeers peers)
      : peers_(std::move(peers)), inbox_(size()), links_(peers_.processes.size()) {
    for (int other = 0; other < size(); ++other) {
      const int socket = peers_.sockets[static_cast<size_t>(other)].number();
      if (socket >= 0) fcntl(socket, F_SETFL, O_NONBLOCK);
      polls_.push_back({socket, POLLIN, 0});
      if (socket < 0 && other != rank()) lose(other, describe(other));
    }
    polls_.push_back({-1, POLLIN, 0});
  }
  SocketMesh(const SocketMesh&) = delete;
  SocketMesh& operator=(const SocketMesh&) = delete;

  int rank() const { return peers_.rank; }
  int size() const { return static_cast<int>(peers_.processes.size()); }
  const std::vector<ProcessAddress>& processes() const { return peers_.processes; }
  // From here on what leaves for others leaves as over this link.
  void slow_down(LinkSpeed speed) { throttle_ = LinkThrottle(speed); }

  // From here on frames of run number `world` go to `receiver`; those of older runs are dropped.
  void attach(int32_t world, SocketReceiver* receiver) { inbox_.attach(world, receiver); }
  void detach(const SocketReceiver* receiver) { inbox_.detach(receiver); }

  // Sends a request's data behind the frame; receiver->sent() when all of it has left.
  void send(int to, SocketFrame frame, Request& request) {
    frame.bytes = request.data.nbytes();
    put(to, {.frame = frame, .own = {}, .request = &request});
  }
  void send(int to, SocketFrame frame, std::string bytes = "") {
    frame.bytes = std::ssize(bytes);
    put(to, {.frame = frame, .own = std::move(bytes)});
  }
  // Never touches this request's data again.
  void forget(const Request& request) {
    inbox_.forget(request);
    for (Link& each : links_)
      for (size_t i = 0; i < each.out.size(); ++i) {
        Outgoing& out = each.out[i];
        if (out.request != &request) continue;
        if (out.sent > 0) {  // the other side expects the rest
          out.own.assign(reinterpret_cast<const char*>(request.data.bytes),
                         static_cast<size_t>(out.frame.bytes));
          out.request = nullptr;
        } else {
          each.out.erase(each.out.begin() + static_cast<std::ptrdiff_t>(i--));
        }
      }
  }

  // Reads and writes what it can; sleeps until it can, for so many seconds at most.
  void progress(double seconds) {
    if (deliver_own()) seconds = 0;
    for (int other = 0; other < size(); ++other) {
      const double wait = seconds_to_wait(other);
      const bool writes = !link(other).out.empty() && wait <= 0;
      poll_of(other).events = static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN);
      if (wait > 0) seconds = std::min(seconds, wait);
    }
    polls_.back().fd = peers_.line == nullptr ? -1 : peers_.line->number();
    double whole = 0;
    const double part = std::modf(std::max(seconds, 0.0), &whole);
    const timespec most{static_cast<time_t>(whole), static_cast<long>(part * 1e9)};
    if (ppoll(polls_.data(), polls_.size(), &most, nullptr) <= 0) return;
    for (int other = 0; other < size(); ++other) {
      if ((poll_of(other).revents & ~POLLOUT) != 0) read(other);
      if (link(other).has_ended && !link(other).is_closed) end(other);
      if ((poll_of(other).revents & POLLOUT) != 0) flush(other);
    }
    if (polls_.back().revents != 0) hear();
  }

  // --- texts: for what processes tell each other outside of runs ---
  void send_text(int to, std::string text) { send(to, SocketFrame(), std::move(text)); }
  // The next text that has come from a process, if any.
  std::optional<std::string> take_text(int from) { return inbox_.take_text(from); }

  // Is there anything that has not left yet?
  bool is_sending() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const Link& each) { return !each.out.empty(); });
  }
  // The process that is lost, here or by another process's word; -1: none.
  int lost() const { return lost_; }
  std::string describe_lost() const { return lost_text_; }
  // Has it ended, well or not?
  bool is_gone(int other) const {
    return links_[static_cast<size_t>(other)].is_closed || inbox_.said_goodbye(other);
  }
  // The last frame to all. What has left is theirs, also when this process has ended.
  void say_goodbye() {
    for (int other = 0; other < size(); ++other)
      if (other != rank()) send(other, {.kind = SocketFrame::Kind::goodbye, .tag = lost_});
    for (const double until = seconds_now() + 5; is_sending() && seconds_now() < until;)
      progress(0.1);
  }

 private:
  static constexpr size_t part_bytes = 256 * 1024;  // that leave at once over a slow link

  struct Outgoing {
    SocketFrame frame;
    std::string own = {};        // the bytes behind the frame, or
    Request* request = nullptr;  // the data of a request
    size_t sent = 0;             // bytes, the frame's own too
    double ready = 0;            // when it may begin to leave, if the link is slow

    size_t length() const { return sizeof frame + static_cast<size_t>(frame.bytes); }
    std::span<const std::byte> bytes() const {
      const void* const at = request != nullptr ? static_cast<const void*>(request->data.bytes)
                                                : static_cast<const void*>(own.data());
      return {static_cast<const std::byte*>(at), static_cast<size_t>(frame.bytes)};
    }
  };
  struct Link {
    std::deque<Outgoing> out = {};
    bool has_ended = false;  // nothing more comes
    bool is_closed = false;  // and that has been judged
  };
  Link& link(int other) { return links_[static_cast<size_t>(other)]; }
  pollfd& poll_of(int other) { return polls_[static_cast<size_t>(other)]; }

  // --- out ---
  void put(int to, Outgoing out) {
    if (link(to).is_closed) return;  // all ranks will be told
    if (throttle_.is_slow()) out.ready = throttle_.ready_at(seconds_now());
    link(to).out.push_back(std::move(out));
    if (to != rank() && link(to).out.size() == 1) flush(to);
  }
  void flush(int to) {
    std::deque<Outgoing>& out = link(to).out;
    while (!out.empty() && seconds_to_wait(to) <= 0) {
      const ssize_t sent = send_some(to, out.front());
      if (sent < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return;
        return out.clear();  // it has ended: reading will tell how
      }
      if (throttle_.is_slow()) throttle_.has_left(seconds_now(), static_cast<double>(sent));
      out.front().sent += static_cast<size_t>(sent);
      if (out.front().sent < out.front().length()) continue;
      Request* const request = out.front().request;
      out.pop_front();
      if (request != nullptr && inbox_.receiver() != nullptr) inbox_.receiver()->sent(*request);
    }
  }
  // How long the next part for process `to` must still wait before it may be sent; 0: not at all.
  double seconds_to_wait(int to) const {
    const std::deque<Outgoing>& out = links_[static_cast<size_t>(to)].out;
    if (!throttle_.is_slow() || to == rank() || out.empty()) return 0;
    return throttle_.may_leave_at(out.front().ready) - seconds_now();
  }
  ssize_t send_some(int to, const Outgoing& out) const {
    const auto frame = std::as_bytes(std::span(&out.frame, 1));
    const size_t of_frame = std::min(out.sent, frame.size());
    const auto head = frame.subspan(of_frame), body = out.bytes().subspan(out.sent - of_frame);
    const size_t most = throttle_.is_slow() ? part_bytes : body.size();
    std::array<iovec, 2> parts = {
        {{const_cast<std::byte*>(head.data()), head.size()},
         {const_cast<std::byte*>(body.data()), std::min(body.size(), most)}}};
    msghdr message = {};
    message.msg_iov = parts.data(), message.msg_iovlen = parts.size();
    return sendmsg(peers_.sockets[static_cast<size_t>(to)].number(), &message,
                   MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  // What this rank has sent to itself. Has anything moved?
  bool deliver_own() {
    std::deque<Outgoing>& own = link(rank()).out;
    const bool has_moved = !own.empty();
    while (!own.empty()) {
      const Outgoing out = std::move(own.front());
      own.pop_front();
      inbox_.take(rank(), std::as_bytes(std::span(&out.frame, 1)));
      inbox_.take(rank(), out.bytes());
      if (out.request != nullptr && inbox_.receiver() != nullptr)
        inbox_.receiver()->sent(*out.request);
    }
    return has_moved;
  }

  // --- in ---
  // Reads what has come from a process, once. False: there was nothing, or its socket has ended.
  bool read(int from) {
    if (link(from).has_ended) return false;
    const std::span<std::byte> rest = inbox_.rest_of_frame(from);
    std::array<iovec, 2> parts = {{{rest.data(), rest.size()}, {buffer_.data(), buffer_.size()}}};
    const ssize_t got = readv(poll_of(from).fd, parts.data(), parts.size());
    if (got <= 0) {
      link(from).has_ended = got == 0 || (errno != EAGAIN && errno != EINTR);
      return false;
    }
    const size_t straight = std::min(rest.size(), static_cast<size_t>(got));
    if (straight > 0) inbox_.has_come(from, straight);
    inbox_.take(from, {buffer_.data(), static_cast<size_t>(got) - straight});
    if (inbox_.lost() >= 0 && lost_ < 0) note_lost(inbox_.lost(), describe(inbox_.lost()));
    return true;
  }

  // --- which processes still live ---
  std::string describe(int other) const {
    return describe_lost_process(other, peers_.processes[static_cast<size_t>(other)]);
  }
  void end(int other) {
    if (!inbox_.said_goodbye(other)) hear();  // its starter may know more
    if (!link(other).is_closed) lose(other, describe(other));
  }
  // The starter's words, which may say who has died.
  void hear() {
    if (peers_.line == nullptr) return;
    peers_.line->read();
    while (const std::optional<LostRank> told = peers_.line->take_lost(peers_.epoch)) {
      const int other = told->rank;
      if (other < 0 || other >= size() || other == rank()) continue;
      while (read(other)) continue;  // what it had sent, among it a goodbye
      if (is_gone(other)) continue;
      const ProcessAddress& address = peers_.processes[static_cast<size_t>(other)];
      lose(other, fmt::format("rank {} has failed: its process, {} on {}, {}", other, address.pid,
                              address.host.data(), told->how));
    }
  }
  void lose(int other, const std::string& text) {
    link(other).has_ended = link(other).is_closed = true;
    link(other).out.clear();
    poll_of(other).fd = -1;
    if (!inbox_.said_goodbye(other) && lost_ < 0) note_lost(other, text);
  }
  void note_lost(int other, const std::string& text) {
    lost_ = other;
    lost_text_ = text;
  }

  SocketPeers peers_;
  LinkThrottle throttle_;
  SocketInbox inbox_;
  std::vector<Link> links_;    // by rank
  std::vector<pollfd> polls_;  // by rank, and that of the line
  std::vector<std::byte> buffer_ = std::vector<std::byte>(64 * 1024);
  int lost_ = -1;
  std::string lost_text_;
};

}  // namespace yotta
