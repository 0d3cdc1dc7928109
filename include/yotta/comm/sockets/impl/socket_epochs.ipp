// The bodies of comm/sockets/socket_epochs.hpp.
#pragma once

#include "yotta/comm/sockets/socket_epochs.hpp"

#include <unistd.h>

#include <cstdlib>

namespace yotta {

YOTTA_INLINE std::unique_ptr<SocketEpochs> SocketEpochs::find(
    std::function<void(int rank)> on_epoch, const LinkSpeed& link, const Environment& get) {
  const char* const place = get("RANK");
  if (!JobLine::is_member(get) || place == nullptr) return nullptr;
  std::unique_ptr<SocketEpochs> host(
      new SocketEpochs(JobLine::find(get), std::atoi(place), std::move(on_epoch), link));
  epoch_host() = host.get();
  return host;
}
YOTTA_INLINE SocketEpochs::~SocketEpochs() {
  if (epoch_host() == this) epoch_host() = nullptr;
}

namespace detail {
// The entry of this process; null: it has no place.
inline const JobProcess* own_entry(const JobNews& news) {
  for (const auto* const list : {&news.members, &news.waiting})
    for (const JobProcess& each : *list)
      if (each.process == getpid()) return &each;
  return nullptr;
}
// Such an error does not count as a death: it would come again.
inline bool would_come_again(const CommError& error) {
  return dynamic_cast<const Deadlock*>(&error) != nullptr ||
         dynamic_cast<const Mismatch*>(&error) != nullptr ||
         dynamic_cast<const Timeout*>(&error) != nullptr;
}
}  // namespace detail

YOTTA_INLINE void SocketEpochs::run(int /*places*/, const MakeMember& make, Where where) {
  on_epoch_(rank_ = -1);
  line_->say_come(0);
  line_->await_news([](const JobNews& it) { return detail::own_entry(it) != nullptr; }, where);
  if (line_->news().done) return;
  const JobProcess own = *detail::own_entry(line_->news());
  const std::unique_ptr<EpochMember> member = make({own.place, own.number});
  for (int epoch = 0;;) {
    line_->await_news([&](const JobNews& it) { return it.epoch > epoch; }, where);
    const JobNews news = line_->news();
    if (news.done) return;
    epoch = news.epoch;
    if (run_epoch(news, *member, where)) return line_->say_finished();
  }
}

// True: the work is done. After a death there is nothing to ask for: the starter sees it.
YOTTA_INLINE bool SocketEpochs::run_epoch(const JobNews& news, EpochMember& member, Where where) {
  const Epoch epoch = enter(news);
  on_epoch_(rank_);
  if (rank_ < 0) return false;
  bool done = false;
  try {
    SocketRanksOptions options;
    options.link = link_;
    SocketRanks ranks(line_, news.epoch, std::move(options), where);
    run_ranks(
        ranks.size(), [&](Communicator& world) { done = member.run(world, epoch); }, {}, where);
  } catch (const PeerFailed&) {
    return false;
  } catch (const CommError& error) {
    if (detail::would_come_again(error)) throw;
    done = false;
  }
  if (!done) line_->say_asks(news.epoch);
  return done;
}

// The epoch, and this process's rank in it.
YOTTA_INLINE Epoch SocketEpochs::enter(const JobNews& news) {
  Epoch epoch{news.epoch, {}, nullptr};
  rank_ = -1;
  for (const JobProcess& each : news.members) {
    if (each.process == getpid()) rank_ = static_cast<int>(epoch.places.size());
    epoch.places.push_back(each.place);
  }
  epoch.waiting = [line = line_] {
    line->read();
    std::vector<Joiner> joiners;
    for (const JobProcess& each : line->news().waiting)
      joiners.push_back({each.place, each.number});
    return joiners;
  };
  epoch.keep = [line = line_](const std::string& bytes) { line->leave_note("kept", bytes); };
  epoch.kept = [line = line_] { return line->note("kept").value_or(""); };
  epoch.deaths = [line = line_] {
    line->read();
    return line->news().deaths;
  };
  return epoch;
}

}  // namespace yotta
