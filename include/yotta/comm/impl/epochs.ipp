// The bodies of comm/epochs.hpp.
#pragma once

#include "yotta/comm/epochs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "yotta/comm/run_ranks.hpp"

namespace yotta {

YOTTA_INLINE EpochHost*& epoch_host() {
  static EpochHost* host = nullptr;
  return host;
}

YOTTA_INLINE std::string describe(const std::vector<Death>& deaths) {
  std::map<int, int> times;  // by place
  for (const Death& each : deaths) ++times[each.place];
  std::string text;
  for (const auto& [place, count] : times)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                        place < 0 ? "a spare" : fmt::format("rank {}", place),
                        count > 1 ? fmt::format(" ({} times)", count) : "");
  return text;
}

YOTTA_INLINE void EpochPlanner::died(int place) {
  is_due_ = is_due_ || is_member_[at(place)];
  ready_[at(place)] = is_member_[at(place)] = false;
}

YOTTA_INLINE std::optional<std::vector<int>> EpochPlanner::next() {
  const bool all = std::find(ready_.begin(), ready_.end(), false) == ready_.end();
  if (!is_due_ || (number_ == 0 && !all)) return {};  // the job starts when all have come
  std::vector<int> places = rule_(ready_);
  if (places.empty()) return {};
  is_member_.assign(is_member_.size(), false);
  for (const int place : places) is_member_[at(place)] = true;
  is_due_ = false;
  ++number_;
  return places;
}

YOTTA_INLINE std::vector<int> EpochPlanner::missing() const {
  std::vector<int> places;
  if (!is_due_ || number_ == 0 || !rule_(ready_).empty()) return places;
  for (size_t place = 0; place < ready_.size(); ++place)
    if (!ready_[place]) places.push_back(static_cast<int>(place));
  return places;
}
YOTTA_INLINE std::vector<int> EpochPlanner::waiting() const {
  std::vector<int> places;
  for (size_t place = 0; place < ready_.size(); ++place)
    if (ready_[place] && !is_member_[place]) places.push_back(static_cast<int>(place));
  return places;
}

namespace detail {
// How the ranks of one epoch have ended.
struct EpochEnd {
  std::vector<int> killed;   // places
  bool done = false;         // so say the ranks of this process, all of them
  std::exception_ptr error;  // the root cause; null: none
};
inline bool is_loss(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const PeerFailed&) {
    return true;
  } catch (const RankFailed& failed) {
    try {
      std::rethrow_exception(failed.cause());
    } catch (const RankKilled&) {
      return true;
    } catch (...) {
    }
  } catch (...) {
  }
  return false;
}
inline EpochEnd run_epoch(const Epoch& epoch,
                          const std::vector<std::unique_ptr<EpochMember>>& members, Where where) {
  const size_t ranks = epoch.places.size();
  std::vector<std::atomic<bool>> killed(ranks), done(ranks);  // each by its own rank
  EpochEnd end;
  try {
    run_ranks(
        static_cast<int>(ranks),
        [&](Communicator& world) {
          const auto rank = static_cast<size_t>(world.rank());
          try {
            done[rank] = members[static_cast<size_t>(epoch.places[rank])]->run(world, epoch);
          } catch (const RankKilled&) {
            killed[rank] = true;
            throw;
          }
        },
        {}, where);
  } catch (...) {
    end.error = std::current_exception();
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (killed[rank]) end.killed.push_back(epoch.places[rank]);
    end.done = end.done || done[rank];
  }
  return end;
}

// A job whose members are threads of this process.
class ThreadJob {
 public:
  ThreadJob(int places, const EpochRule& rule, const MakeMember& make)
      : planner_(places, rule),
        make_(make),
        members_(static_cast<size_t>(places)),
        numbers_(static_cast<size_t>(places), -1) {
    for (int place = 0; place < places; ++place) start(place);
  }

  void run(Where where) {
    std::optional<std::vector<int>> next = planner_.next();
    while (next) {
      const EpochEnd end = run_epoch(
          {planner_.number(), *next, [this] { return waiting(); }, [this] { return deaths_; },
           [this](const std::string& bytes) { kept_ = bytes; }, [this] { return kept_; }},
          members_, where);
      if (end.error && (end.killed.empty() || !is_loss(end.error)))
        std::rethrow_exception(end.error);
      if (!end.error && end.done) return;
      if (!end.error) planner_.asks();
      next = go_on_without(end.killed);
    }
    fail(where, "the {} places of this job are too few for its rule", members_.size());
  }

 private:
  void start(int place) {
    const auto at = static_cast<size_t>(place);
    members_[at].reset();
    members_[at] = make_({place, ++numbers_[at]});
    planner_.came(place);
  }
  // The next epoch. If the rule lets the survivors go on alone, they do not wait for replacements.
  std::optional<std::vector<int>> go_on_without(const std::vector<int>& killed) {
    for (const int place : killed) {
      deaths_.push_back({place, numbers_[static_cast<size_t>(place)], planner_.number()});
      planner_.died(place);
    }
    std::optional<std::vector<int>> next = planner_.next();
    for (const int place : killed) start(place);
    return next ? next : planner_.next();
  }
  std::vector<Joiner> waiting() const {
    std::vector<Joiner> joiners;
    for (const int place : planner_.waiting())
      joiners.push_back({place, numbers_[static_cast<size_t>(place)]});
    return joiners;
  }

  EpochPlanner planner_;
  const MakeMember& make_;
  std::vector<std::unique_ptr<EpochMember>> members_;  // by place
  std::vector<int> numbers_;                           // of the member there
  std::vector<Death> deaths_;
  std::string kept_;
};
}  // namespace detail

YOTTA_INLINE void run_epochs(int places, const EpochRule& rule, const MakeMember& make,
                             Where where) {
  if (epoch_host() != nullptr) return epoch_host()->run(places, make, where);
  detail::ThreadJob(places, rule, make).run(where);
}

}  // namespace yotta
