// TcpMesh: a process of a job over TCP, with its connections to all others and the frames on them
// (tcp_frames.hpp).
//
// There is no helper thread of ours: a rank that waits calls progress(). It sleeps until something
// comes or can leave, moves what it can, and gives whole frames to the transport of the current
// run. What ZeroMQ has not taken yet stays in the sender's array, so a large message lies in no
// queue as a whole. What a rank sends to itself takes the same way, without a socket.
//
// A process that ends well sends a goodbye frame. One is lost if
//     its connection closes without one: it was killed, has crashed, or its host has vanished;
//     the kernel says that it has ended (processes of the same host);
//     the process that has started it says so (rank_words.hpp);
//     its parts have a gap, or it sends what no rank sends.
// Each rank has a connection of its own (TcpPeers::ranks). A message counts as sent by the rank to
// which its connection belongs, whatever is in it. What comes on other connections is dropped and
// reported: its sender has the job's key, but is not a rank.
// A rank that does not answer for ten seconds is not lost: it may be stopped. The lowest rank that
// notices prints that, and prints when it is back.
// Cost of a part: 80 bytes, a copy and an encryption on each side.
#pragma once

#include <cstdio>
#include <span>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/tcp/tcp_frames.hpp"
#include "yotta/comm/tcp/tcp_rendezvous.hpp"
#include "yotta/comm/tcp/tcp_sockets.hpp"
#include "yotta/comm/tcp/tcp_throttle.hpp"
#include "yotta/core/cpu/measure.hpp"

namespace yotta {

class TcpMesh {
 public:
  // last_words: seconds in which what a dead process has sent gets to arrive.
  explicit TcpMesh(TcpPeers peers, double last_words = 0.3)
      : peers_(std::move(peers)),
        last_words_(last_words),
        inbox_(peers_.rank, static_cast<int>(peers_.processes.size())),
        links_(peers_.processes.size()) {
    peers_.lines.resize(links_.size());
    for (int other = 0; other < size(); ++other)
      if (other != rank()) watch_.add(other, processes()[static_cast<size_t>(other)]);
  }
  ~TcpMesh() {
    for (int other = 0; other < size(); ++other)
      if (TcpLine* const line = line_to(other); line != nullptr && said_goodbye_)
        line->data.set(zmq::sockopt::linger, is_gone(other) ? 0 : 1000);
  }
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  int rank() const { return peers_.rank; }
  int size() const { return static_cast<int>(links_.size()); }
  const std::vector<ProcessAddress>& processes() const { return peers_.processes; }
  OwnWords& words() { return *peers_.words; }
  // From here on what leaves for others leaves as over this link.
  void slow_down(LinkSpeed speed) { throttle_ = TcpThrottle(speed); }

  // From here on frames of run number `world` go to `receiver`; those of older runs are dropped.
  void attach(int32_t world, TcpReceiver* receiver) { inbox_.attach(world, receiver); }
  void detach(const TcpReceiver* receiver) { inbox_.detach(receiver); }

  // Sends a request's data behind the frame; receiver->sent() when all of it has left.
  void send(int to, TcpFrame frame, Request& request) {
    frame.bytes = request.data.nbytes();
    put(to, {.frame = frame, .own = {}, .request = &request});
  }
  void send(int to, TcpFrame frame, std::string bytes = "") {
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
        if (out.parts > 0) {  // the other side expects the rest
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
    bool has_moved = false;
    for (int other = 0; other < size(); ++other) has_moved = flush(other) || has_moved;
    has_moved = receive() || has_moved;
    supervise();
    if (has_moved || seconds <= 0) return;
    sleep(std::min(seconds, look_after));
    for (int other = 0; other < size(); ++other) flush(other);
    receive();
    supervise();
  }

  // A ZeroMQ message of rank `from` has come, from this host. What is wrong with it is the end of
  // that rank.
  void take(std::string_view message, int from, const std::string& host, std::string fault = "") {
    if (fault.empty()) fault = inbox_.take(message, from);
    if (inbox_.lost() >= 0 && lost_ < 0) note_lost(inbox_.lost(), describe(inbox_.lost()));
    if (fault.empty()) return;
    const std::string text =
        fmt::format("rank {} has sent from {} what no rank sends: {}", from, host, fault);
    if (from == rank()) fail(Where::current(), "{}", text);
    lose(from, text);
  }

  // --- texts: for what processes tell each other outside of runs ---
  void send_text(int to, std::string text) { send(to, TcpFrame(), std::move(text)); }
  // The next text that has come from a process, if any.
  std::optional<std::string> take_text(int from) { return inbox_.take_text(from); }

  // Is there anything that ZeroMQ has not taken yet?
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
  // The last frame to all, and a moment for theirs: frames that are under way should arrive.
  void say_goodbye() {
    for (int other = 0; other < size(); ++other)
      if (other != rank()) send(other, {.kind = TcpFrame::Kind::goodbye, .tag = lost_});
    said_goodbye_ = true;
    const Deadline deadline(5), others(1);
    const auto waits = [&] {
      for (int other = 0; other < size(); ++other)
        if (other != rank() && !is_gone(other)) return true;
      return false;
    };
    while ((is_sending() && deadline.left() > 0) || (waits() && others.left() > 0)) progress(0.01);
  }

 private:
  static constexpr double look_after = 0.1;  // seconds between two looks at the other processes
  static constexpr int most_at_once = 64;    // messages that are read before anything else happens

  struct Outgoing {
    TcpFrame frame;
    std::string own = {};        // of the frame itself, or
    Request* request = nullptr;  // the data of a request
    int64_t sent = 0;            // bytes
    int64_t parts = 0;
    double ready = 0;  // when it may begin to leave, if the card is slow
  };
  // What is known of another process.
  struct Link {
    std::deque<Outgoing> out = {};
    int64_t parts = 0;  // that have left
    bool is_closed = false;
    int64_t parts_seen = 0;          // that have come from it, at the last look
    std::optional<Deadline> dying;   // it has ended; what it has sent may still come
    std::optional<Deadline> silent;  // it does not answer; said when this has passed
    bool said_silent = false;
  };
  Link& link(int other) { return links_[static_cast<size_t>(other)]; }
  TcpLine* line_to(int other) const { return peers_.lines[static_cast<size_t>(other)].get(); }

  // --- out ---
  void put(int to, Outgoing out) {
    const bool is_reached = to == rank() || line_to(to) != nullptr;
    if (link(to).is_closed || !is_reached) return;  // all ranks will be told
    if (throttle_.is_slow()) out.ready = throttle_.ready_at(seconds_now());
    link(to).out.push_back(std::move(out));
    if (to != rank() && link(to).out.size() == 1) flush(to);
  }
  // Has anything moved?
  bool flush(int to) {
    bool has_moved = false;
    std::deque<Outgoing>& out = link(to).out;
    while (!out.empty() && seconds_to_wait(to) <= 0 && send_part(to, out.front())) {
      has_moved = true;
      if (out.front().sent < out.front().frame.bytes) continue;
      Request* const request = out.front().request;
      out.pop_front();
      if (request != nullptr && inbox_.receiver() != nullptr) inbox_.receiver()->sent(*request);
    }
    return has_moved;
  }
  // How long the next part for process `to` must still wait before it may be sent; 0: not at all.
  double seconds_to_wait(int to) const {
    const std::deque<Outgoing>& out = links_[static_cast<size_t>(to)].out;
    if (!throttle_.is_slow() || to == rank() || out.empty()) return 0;
    return throttle_.may_leave_at(out.front().ready) - seconds_now();
  }
  // Sends the next part of `out`; false if it cannot be sent now.
  bool send_part(int to, Outgoing& out) {
    const int64_t bytes = std::min(out.frame.bytes - out.sent, tcp_limits::part_bytes);
    const TcpPart part{
        .from = rank(), .to = to, .number = link(to).parts, .offset = out.sent, .frame = out.frame};
    if (to != rank() && bytes > 4096 &&  // asked first: a copy for nothing would cost more
        (line_to(to)->data.get(zmq::sockopt::events) & ZMQ_POLLOUT) == 0)
      return false;
    zmq::message_t message(sizeof part + static_cast<size_t>(bytes));
    std::memcpy(message.data(), &part, sizeof part);
    const char* const data = out.request != nullptr
                                 ? reinterpret_cast<const char*>(out.request->data.bytes)
                                 : out.own.data();
    if (bytes > 0)
      std::memcpy(message.data<char>() + sizeof part, data + out.sent, static_cast<size_t>(bytes));
    if (to != rank() && !try_send(line_to(to)->data, message)) return false;
    if (throttle_.is_slow() && to != rank())
      throttle_.has_left(seconds_now(), static_cast<double>(bytes) + sizeof part);
    ++link(to).parts;
    ++out.parts;
    out.sent += bytes;
    if (to == rank()) take(message.to_string_view(), rank(), "itself");
    return true;
  }

  // --- in ---
  bool receive() {
    if (peers_.sockets == nullptr) return false;
    int messages = 0;
    for (; messages < most_at_once; ++messages) {
      std::optional<TcpMessage> message = take_message(peers_.sockets->inbox());
      if (!message) break;
      const auto sender = peers_.ranks.find(message->name);
      if (sender == peers_.ranks.end())
        peers_.sockets->guard().report_key_holder(message->host(), "a connection of no rank");
      else
        take(message->words.to_string_view(), sender->second, message->host(), message->fault);
    }
    return messages > 0;
  }
  void sleep(double seconds) {
    if (peers_.sockets == nullptr)
      return std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::vector<zmq::pollitem_t> items = {{peers_.sockets->inbox().handle(), 0, ZMQ_POLLIN, 0}};
    for (int other = 0; other < size(); ++other)
      if (TcpLine* const line = line_to(other); line != nullptr && !link(other).out.empty()) {
        const double wait = seconds_to_wait(other);
        if (wait <= 0) items.push_back({line->data.handle(), 0, ZMQ_POLLOUT, 0});
        if (wait > 0) seconds = std::min(seconds, wait);
      }
    wait_for(items, seconds + 0.0009);
  }

  // --- which processes still live ---
  std::string describe(int other) const {
    return describe_lost_process(other, peers_.processes[static_cast<size_t>(other)]);
  }
  void lose(int other, const std::string& text) {
    link(other).is_closed = true;
    link(other).out.clear();
    if (!inbox_.said_goodbye(other) && lost_ < 0) note_lost(other, text);
  }
  void note_lost(int other, const std::string& text) {
    lost_ = other;
    lost_text_ = text;
  }
  // What it has sent may still come, among it a goodbye.
  void is_dying(int other) {
    if (!link(other).dying) link(other).dying.emplace(last_words_);
  }
  void supervise() {
    if (peers_.sockets == nullptr || next_look_.left() > 0) return;
    next_look_ = Deadline(look_after);
    if (const int dead = watch_.ended(); dead >= 0) is_dying(dead);
    if (const std::optional<LostRank> told = words().heard();
        told && told->rank < size() && told->rank != rank() && !is_gone(told->rank))
      lose(told->rank,
           fmt::format("rank {} has failed: its process, {} on {}, {}", told->rank,
                       processes()[static_cast<size_t>(told->rank)].pid,
                       processes()[static_cast<size_t>(told->rank)].host.data(), told->how));
    for (int other = 0; other < size(); ++other)
      if (line_to(other) != nullptr) look_at(other);
  }
  void look_at(int other) {
    Link& it = link(other);
    while (const auto event = line_to(other)->data_events.next())
      if (event->kind == ZMQ_EVENT_DISCONNECTED) is_dying(other);
    while (const auto event = line_to(other)->control_events.next()) {
      if (event->kind == ZMQ_EVENT_DISCONNECTED && !it.silent) it.silent.emplace(1);
      if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) answers_again(other);
    }
    const int64_t parts = inbox_.parts_from(other);
    if (it.dying && parts != it.parts_seen) it.dying.emplace(last_words_);  // there is more of it
    it.parts_seen = parts;
    if (it.dying && it.dying->left() <= 0 && !it.is_closed) lose(other, describe(other));
    if (it.silent && it.silent->left() <= 0 && !it.said_silent && !it.dying && !is_gone(other))
      say_silent(other);
  }
  void say_silent(int other) {
    link(other).said_silent = true;
    int speaker = 0;
    while (speaker != rank() && (speaker == other || link(speaker).silent)) ++speaker;
    if (speaker == rank())
      fmt::print(
          stderr,
          "rank {} does not answer: its process, {} on {}, is stopped, or its host cannot be "
          "reached. The run goes on when it returns\n",
          other, processes()[static_cast<size_t>(other)].pid,
          processes()[static_cast<size_t>(other)].host.data());
    speaks_ = speaker == rank();
  }
  void answers_again(int other) {
    if (link(other).said_silent && speaks_) fmt::print(stderr, "rank {} answers again\n", other);
    link(other).said_silent = false;
    link(other).silent.reset();
  }

  TcpPeers peers_;
  TcpThrottle throttle_;
  double last_words_;
  TcpInbox inbox_;
  std::vector<Link> links_;  // by rank
  ProcessWatch watch_;
  Deadline next_look_{0};
  int lost_ = -1;
  std::string lost_text_;
  bool said_goodbye_ = false, speaks_ = false;
};

}  // namespace yotta
