// The bodies of comm/sockets/job_line.hpp.
#pragma once

#include "yotta/comm/sockets/job_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

namespace yotta {

YOTTA_INLINE std::string news_text(const JobNews& news) {
  std::string text = fmt::format("epoch {} {}\n", news.epoch, news.done ? "done" : "goes_on");
  const auto add = [&](const char* what, const std::vector<JobProcess>& processes) {
    for (const JobProcess& each : processes)
      text += fmt::format("{} {} {} {}\n", what, each.place, each.number, each.process);
  };
  add("member", news.members);
  add("waiting", news.waiting);
  for (const Death& each : news.deaths)
    text += fmt::format("dead {} {} {}\n", each.place, each.number, each.epoch);
  return text;
}

YOTTA_INLINE JobNews parse_news(const std::string& text, Where where) {
  JobNews news;
  std::istringstream lines(text);
  std::string what, done;
  lines >> what >> news.epoch >> done;
  bool right = what == "epoch" && (done == "done" || done == "goes_on");
  news.done = done == "done";
  for (int place = 0, number = 0, last = 0; right && lines >> what;) {
    right = !(lines >> place >> number >> last).fail();
    if (what == "member")
      news.members.push_back({place, number, last});
    else if (what == "waiting")
      news.waiting.push_back({place, number, last});
    else if (what == "dead")
      news.deaths.push_back({place, number, last});
    else
      right = false;
  }
  if (!right) fail(where, "this is no news of a job: {:.60}", text);
  return news;
}

namespace detail {
// The descriptor that "fd:7" names, if the process of this number made it as one of a pair.
inline int find_end(const char* words, const char* starter) {
  if (words == nullptr || starter == nullptr || std::strncmp(words, "fd:", 3) != 0) return -1;
  std::string number = words + 3, process = starter;
  const int end = take_number(number);
  ucred other{};
  socklen_t length = sizeof other;
  if (end < 0 || getsockopt(end, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0) return -1;
  return other.pid == take_number(process) ? end : -1;
}
}  // namespace detail

YOTTA_INLINE std::shared_ptr<JobLine> JobLine::find(const Environment& get) {
  static std::shared_ptr<JobLine> own;
  if (own != nullptr) return own;
  const int end = detail::find_end(get(words_variable), get(starter_variable));
  if (end < 0) return nullptr;
  fcntl(end, F_SETFD, FD_CLOEXEC);
  own = std::make_shared<JobLine>(Descriptor(end));
  return own;
}
YOTTA_INLINE bool JobLine::is_member(const Environment& get) {
  const char* const members = get(members_variable);
  return members != nullptr && *members != '\0' && find(get) != nullptr;
}

YOTTA_INLINE void JobLine::read() {
  while (std::optional<LineWord> word = line_.take()) hear(std::move(*word));
}

YOTTA_INLINE void JobLine::hear(LineWord word) {
  if (word.what == "news") {
    news_ = parse_news(word.rest);
    std::erase_if(lost_, [&](const auto& each) { return each.first < news_.epoch; });
  } else if (word.what == "peer") {
    const int epoch = take_number(word.rest), rank = take_number(word.rest);
    if (!word.descriptor.is_open())
      fail(Where::current(),
           "there is no descriptor left for the socket to rank {}: `ulimit -n` says how many a "
           "process may have",
           rank);
    if (std::exchange(peers_epoch_, epoch) != epoch) peers_.clear();
    peers_[rank] = std::move(word.descriptor);
  } else if (word.what == "lost") {
    const int epoch = take_number(word.rest), rank = take_number(word.rest);
    lost_.push_back({epoch, {rank, word.rest}});
  } else if (word.what == "note" && word.descriptor.is_open()) {
    notes_[word.rest] = std::move(word.descriptor);
  }
}

YOTTA_INLINE void JobLine::await_news(const std::function<bool(const JobNews&)>& is_it,
                                      Where where) {
  for (;;) {
    read();
    if (news_.done || is_it(news_)) return;
    if (!line_.is_open()) fail(where, "the process that has started this one has ended");
    pollfd end{line_.number(), POLLIN, 0};
    poll(&end, 1, 1000);
  }
}

YOTTA_INLINE std::vector<Descriptor> JobLine::take_peers(int epoch, int ranks) {
  std::vector<Descriptor> peers(static_cast<size_t>(ranks));
  if (epoch != peers_epoch_) return peers;
  for (auto& [rank, socket] : peers_)
    if (rank >= 0 && rank < ranks) peers[static_cast<size_t>(rank)] = std::move(socket);
  peers_.clear();
  return peers;
}

YOTTA_INLINE std::optional<LostRank> JobLine::take_lost(int epoch) {
  for (size_t i = 0; i < lost_.size(); ++i) {
    if (lost_[i].first != epoch) continue;
    LostRank lost = std::move(lost_[i].second);
    lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(i));
    return lost;
  }
  return {};
}

YOTTA_INLINE std::optional<std::string> JobLine::note(const std::string& key) {
  read();
  const auto found = notes_.find(key);
  if (found == notes_.end()) return {};
  return bytes_of_file(found->second);
}

YOTTA_INLINE void JobLine::leave_note(const std::string& key, const std::string& bytes) {
  Descriptor file = file_in_memory(bytes);
  line_.send("note " + key, file);
  notes_[key] = std::move(file);
}

}  // namespace yotta
