// Deadlock: proving that a rank can never go on.
//
//     rank 0  recv from 1 ──►  rank 1  recv from 2 ──►  rank 2  recv from 0 ──► rank 0: a circle
//     rank 3  recv from 4 ──►  rank 4  has returned: it will never send
//     rank 5  computes; rank 6  recv from 5: may still be served, so it is not deadlocked
//
// Every rank is a few strands: its main code and the collectives it has in flight. A strand is
// alive if it runs, or has what it waits for. A waiting strand is alive if every rank it waits for
// has some strand alive, since that rank may yet send. We start from the strands that run and add
// what they may serve, until nothing changes. A strand that is left can only be woken by others
// that are left: it can never go on. No time-out is needed to prove that. No helper threads send
// messages, so the graph is complete.
//
// These are plain data and plain functions, without threads. Cost: O(strands x ranks) per round.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/engine/transport.hpp"
#include "yotta/comm/failures.hpp"

namespace yotta {

// What one waiting strand needs before it can go on.
struct StrandWait {
  bool ready = false;      // it has all it waits for, and runs as soon as its rank wakes up
  std::vector<int> needs;  // world ranks that must act, all of them
  int strand = -1;         // or: another strand of this rank that must end first
  // For the error message:
  enum class Kind : uint8_t { send, recv, collective } kind = Kind::recv;
  std::string doing;      // "recv of 16 f32 with tag 7"
  std::string called_at;  // "ring.cpp:12"
  std::string waited_at;  // "ring.cpp:20": the line that blocks, which may be a later wait()
  std::string hint;       // "rank 1 has sent tag 8"
};

struct RankWait {
  // asks: it runs, but what it asks for (Work::done) may be something that no rank can ever send.
  enum class State : uint8_t { runs, waits, returned, asks };
  State state = State::runs;
  std::vector<StrandWait> strands;  // of a rank that waits or asks; [0] is its main code
};

// The state of a rank whose strands wait for this.
inline RankWait::State state_of(std::span<const Waiting> strands) {
  return strands[0].only_asks ? RankWait::State::asks : RankWait::State::waits;
}

// alive[rank]: can the rank's main code go on, ever?
inline std::vector<bool> find_alive(const std::vector<RankWait>& ranks) {
  std::vector<bool> any(ranks.size());  // has a strand alive
  std::vector<std::vector<bool>> alive(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    any[r] = ranks[r].state == RankWait::State::runs || ranks[r].state == RankWait::State::asks;
    alive[r].assign(ranks[r].strands.size(), false);
  }
  auto may_go_on = [&](size_t r, const StrandWait& wait) {
    if (wait.strand >= 0) return static_cast<bool>(alive[r][static_cast<size_t>(wait.strand)]);
    for (int other : wait.needs)
      if (!any[static_cast<size_t>(other)]) return false;
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      for (size_t s = 0; s < ranks[r].strands.size(); ++s) {
        const StrandWait& wait = ranks[r].strands[s];
        if (alive[r][s] || !(wait.ready || may_go_on(r, wait))) continue;
        alive[r][s] = any[r] = changed = true;
      }
    }
  }
  std::vector<bool> main_alive(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) main_alive[r] = ranks[r].strands.empty() || alive[r][0];
  return main_alive;
}

// The strand that blocks a rank's main code: its own, or that of the Work it waits for.
inline const StrandWait& blocked_in(const RankWait& rank) {
  const StrandWait& main = rank.strands[0];
  return main.strand < 0 ? main : rank.strands[static_cast<size_t>(main.strand)];
}

// "0 waits for 1 waits for 2 waits for 0", or "... waits for 3, which has returned".
inline std::string describe_chain(const std::vector<RankWait>& ranks,
                                  const std::vector<bool>& alive, int first) {
  std::vector<int> chain = {first};
  std::string end;
  for (;;) {
    const StrandWait& wait = blocked_in(ranks[static_cast<size_t>(chain.back())]);
    int next = -1;  // a rank it waits for that cannot act
    for (int other : wait.needs) {
      const RankWait& rank = ranks[static_cast<size_t>(other)];
      if (rank.state == RankWait::State::returned) {
        next = other, end = ", which has returned";
        break;
      }
      if (next < 0 && !alive[static_cast<size_t>(other)]) next = other;
    }
    if (next < 0) break;
    const auto seen = std::find(chain.begin(), chain.end(), next);
    const bool closed = seen != chain.end();
    if (closed)
      chain.erase(chain.begin(), seen);  // ranks that lead to the circle are not part of it
    chain.push_back(next);
    if (closed || !end.empty()) break;
  }
  std::string text = fmt::format("{}", chain[0]);
  for (size_t i = 1; i < chain.size(); ++i) text += fmt::format(" waits for {}", chain[i]);
  return text + end;
}

// Advice for the error message.
inline const char* suggest_fix(const std::vector<RankWait>& ranks, const std::vector<bool>& alive) {
  using Kind = StrandWait::Kind;
  bool all_send = true, all_recv = true;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (alive[r]) continue;
    const StrandWait& wait = blocked_in(ranks[r]);
    if (!wait.hint.empty()) return "use the same tag and communicator on both sides";
    if (wait.kind == Kind::collective)
      return "let all ranks make the same collective calls, and in the same order on all "
             "communicators";
    all_send = all_send && wait.kind == Kind::send;
    all_recv = all_recv && wait.kind == Kind::recv;
  }
  if (all_send) return "use send_recv, or let some of the ranks receive first";
  if (all_recv) return "give every recv its send; in a circle somebody must send first";
  return "write down the order of sends and receives on each rank: every recv needs its send";
}

// The whole error message: the circle, the table of waiting ranks, the advice.
inline std::string describe_deadlock(const std::vector<RankWait>& ranks,
                                     const std::vector<bool>& alive) {
  const auto first = std::find(alive.begin(), alive.end(), false) - alive.begin();
  std::string text = "deadlock: rank " + describe_chain(ranks, alive, static_cast<int>(first));
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].state == RankWait::State::returned)
      text += fmt::format("\n  rank {} has returned", r);
    if (alive[r]) continue;
    const StrandWait& wait = blocked_in(ranks[r]);
    text += fmt::format("\n  rank {} waits for", r);
    for (size_t i = 0; i < wait.needs.size(); ++i)
      text += fmt::format("{} {}", i == 0 ? "" : ",", wait.needs[i]);
    text += " in " + wait.doing + " at " + wait.called_at;
    const std::string& waited_at = ranks[r].strands[0].waited_at;
    if (waited_at != wait.called_at) text += ", waited for at " + waited_at;
    if (!wait.hint.empty()) text += "; " + wait.hint;
  }
  return text + "\n  try: " + suggest_fix(ranks, alive);
}

inline const Request* first_request(const Waiting& strand) {
  return strand.requests[0] != nullptr ? strand.requests[0] : strand.requests[1];
}
// Fills in the parts of `wait` for the error message. `members`: world ranks of the requests'
// group.
inline void describe_wait(const Waiting& strand, std::span<const int> members, StrandWait& wait) {
  wait.doing = describe_operation(*strand.call);
  wait.called_at = at(strand.call->where);
  wait.waited_at = at(strand.where);
  const Request* const first = first_request(strand);
  if (first == nullptr) return;
  using Kind = StrandWait::Kind;
  const bool message = first->kind == Request::Kind::send || first->kind == Request::Kind::recv;
  const bool own =
      strand.call->is_custom;  // the user's own algorithm: its sends and receives are named
  wait.kind = !message || (first->tag < 0 && !own) ? Kind::collective
              : first->kind == Request::Kind::send ? Kind::send
                                                   : Kind::recv;
  if (first->tag >= 0 && message) wait.doing += fmt::format(" with tag {}", first->tag);
  if (first->group == 0) return;
  wait.doing += " on the communicator of ranks";
  for (const int member : members) wait.doing += fmt::format(" {}", member);
}

}  // namespace yotta
