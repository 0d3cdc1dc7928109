// Epochs: a job that goes on when ranks die, and takes new ones in.
//
//     place   0   1   2   3
//     epoch 1 A   B   C   D        world of 4; C is killed: the calls of the others throw
//     epoch 2 A   B   .   D        world of 3 with new communicators; E starts at C's place
//     epoch 3 A   B   E   D        E is ready, the others end their step: world of 4
//
// An epoch is never repaired. A place is held by a member, a process or a thread, whose memory
// outlives epochs; in each epoch the members that take part are the ranks of a new world, and every
// communicator is made anew. So collectives, mesh and techniques know nothing of failures: they
// throw, and the member comes back with what it still has in memory.
//
// Who takes part is a rule of the job (model/regroup.hpp). An epoch ends for all its members when
//     one of them dies         the others' calls throw PeerFailed
//     they let others in       all return from run(), at the same step
//     the work is done         all return true
//
// Threads (here): a member dies by RankKilled, and its replacement is there at once. Processes:
// comm/tcp/tcp_epochs.hpp. Contract: run() holds nothing of its world when it has ended.
// References: PyTorch, torchelastic and torchft (a quorum for each step; new process groups); ULFM
// (Bland et al. 2013), which mends MPI's communicators instead: revoke, shrink, agree.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"

namespace yotta {

// What ends a thread rank that is killed. It is not an Error, so that no code handles it by
// accident.
class RankKilled : public std::exception {
 public:
  const char* what() const noexcept override { return "it was killed"; }
};

// A member that is ready and takes no part yet. The first at a place is number 0, its replacement
// 1, ...
struct Joiner {
  int place = 0, number = 0;
};

// A member that has died. place -1: a process that had no place yet. epoch 0: before the first.
struct Death {
  int place = 0, number = 0, epoch = 0;
};
// "rank 1 (2 times), rank 6".
YOTTA_API std::string describe(const std::vector<Death>& deaths);

struct Epoch {
  int number = 1;
  std::vector<int> places;                          // of its ranks, by rank
  std::function<std::vector<Joiner>()> waiting;     // now; asked by rank 0
  std::function<std::vector<Death>()> deaths = {};  // in the job so far
  // Some bytes that outlive all members, whoever dies: of the last rank 0 that had any to keep.
  std::function<void(const std::string&)> keep = {};
  std::function<std::string()> kept = {};
};

class EpochMember {
 public:
  virtual ~EpochMember() = default;
  // Works as a rank of this epoch. True: the work is done; false: others are to be let in.
  virtual bool run(Communicator& world, const Epoch& epoch) = 0;
};

// Of the places that have a ready member, those that take part, in order; empty: wait for more.
using EpochRule = std::function<std::vector<int>(const std::vector<bool>& ready)>;

// Says when an epoch begins, and who takes part.
class EpochPlanner {
 public:
  EpochPlanner(int places, EpochRule rule)
      : rule_(std::move(rule)), ready_(places), is_member_(places) {}

  void came(int place) { ready_[at(place)] = true; }
  YOTTA_API void died(int place);
  void asks() { is_due_ = true; }  // its members have let it end
  // The places of the next epoch, if one is due and there are enough members for it.
  YOTTA_API std::optional<std::vector<int>> next();
  // Ready, and not in this epoch.
  YOTTA_API std::vector<int> waiting() const;
  // While an epoch is due and too few have come for it: the places that have no ready member.
  YOTTA_API std::vector<int> missing() const;
  int number() const { return number_; }  // of the last epoch; 0: none yet

 private:
  static size_t at(int place) { return static_cast<size_t>(place); }

  EpochRule rule_;
  std::vector<bool> ready_, is_member_;  // by place
  bool is_due_ = true;
  int number_ = 0;
};

// Makes the member at a place: number 0 when the job starts, 1 when that has died, ...
using MakeMember = std::function<std::unique_ptr<EpochMember>(const Joiner&)>;

// Runs jobs elsewhere than on threads of this process: comm/tcp/tcp_epochs.hpp.
class EpochHost {
 public:
  virtual ~EpochHost() = default;
  // As run_epochs; each process of the job calls it, and makes its own member.
  virtual void run(int places, const MakeMember& make, Where where) = 0;
};
// Who runs the jobs of this process; null: threads. With a RankHost (run_ranks.hpp) and no
// EpochHost, as under mpirun, the first death ends the job.
YOTTA_API EpochHost*& epoch_host();

// Runs a job until its work is done. Errors: those that a member threw for a reason of its own, and
// not because another rank had died.
YOTTA_API void run_epochs(int places, const EpochRule& rule, const MakeMember& make,
                          Where where = Where::current());

}  // namespace yotta

#if YOTTA_BODIES_OF(comm_epochs)
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "yotta/comm/run_ranks.hpp"

namespace yotta {

EpochHost*& epoch_host() {
  static EpochHost* host = nullptr;
  return host;
}

std::string describe(const std::vector<Death>& deaths) {
  std::map<int, int> times;  // by place
  for (const Death& each : deaths) ++times[each.place];
  std::string text;
  for (const auto& [place, count] : times)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                        place < 0 ? "a spare" : fmt::format("rank {}", place),
                        count > 1 ? fmt::format(" ({} times)", count) : "");
  return text;
}

void EpochPlanner::died(int place) {
  is_due_ = is_due_ || is_member_[at(place)];
  ready_[at(place)] = is_member_[at(place)] = false;
}

std::optional<std::vector<int>> EpochPlanner::next() {
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

std::vector<int> EpochPlanner::missing() const {
  std::vector<int> places;
  if (!is_due_ || number_ == 0 || !rule_(ready_).empty()) return places;
  for (size_t place = 0; place < ready_.size(); ++place)
    if (!ready_[place]) places.push_back(static_cast<int>(place));
  return places;
}
std::vector<int> EpochPlanner::waiting() const {
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

void run_epochs(int places, const EpochRule& rule, const MakeMember& make, Where where) {
  if (epoch_host() != nullptr) return epoch_host()->run(places, make, where);
  detail::ThreadJob(places, rule, make).run(where);
}

}  // namespace yotta
#endif  // YOTTA_BODIES
