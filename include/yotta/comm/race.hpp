// A race, step by step: two ranks add 1 to one counter, and it grows by 1.
//
// Ranks share no memory. They can still share a counter: a line of a file, a key on a server. To
// add 1 to it takes three steps: read it, add 1 to what was read, write the sum. Nothing stops
// another rank's steps from coming in between:
//
//     step   rank 0          rank 1          counter
//        1   reads 41                           41
//        2                   reads 41           41
//        3   adds 1: 42                         41
//        4                   adds 1: 42         41
//        5   writes 42                          42
//        6                   writes 42          42      two additions, and it should be 43
//
// Which order the steps have is decided by chance, in a real run. Here an order is a text,
// "010101": the digits say whose step comes next. So a race is data, and the same every time.
//
// Threads that share a variable race in the same three steps. C++ promises nothing at all about
// such a program (its behaviour is undefined), so this page plays the steps and has no real race.
//
// Contract: a rank is one digit, so there are ten at most; a rank that has done its three steps may
// begin again. The cure: only one rank writes, see start.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace yotta {

// A counter that all ranks can read and write. Each call is one step, so the counter itself is
// never damaged; what goes wrong is between the calls.
class SharedCounter {
 public:
  virtual ~SharedCounter() = default;
  virtual int64_t read() = 0;
  virtual void write(int64_t value) = 0;
};

// What one step did.
struct RaceStep {
  enum Kind { reads, adds, writes };
  int rank;
  Kind kind;
  int64_t held;     // what the rank holds after it
  int64_t counter;  // and what the counter is
};

// The steps of ranks that add 1 to a counter, in this order: "000111" is rank 0, then rank 1.
inline std::vector<RaceStep> play_race(std::string_view order, int64_t counter = 0) {
  struct Rank {
    int steps = 0;
    int64_t held = 0;
  };
  std::map<char, Rank> ranks;
  std::vector<RaceStep> played;
  for (const char digit : order) {
    Rank& self = ranks[digit];
    const auto kind = static_cast<RaceStep::Kind>(self.steps++ % 3);
    if (kind == RaceStep::reads) self.held = counter;
    if (kind == RaceStep::adds) self.held += 1;
    if (kind == RaceStep::writes) counter = self.held;
    played.push_back({digit - '0', kind, self.held, counter});
  }
  return played;
}

// How many orders the steps of `ranks` ranks can have, and after how many of them no addition is
// lost.
struct RaceOrders {
  int all = 0, right = 0;
};
inline RaceOrders count_race_orders(int ranks) {
  std::string order;
  for (int rank = 0; rank < ranks; ++rank) order += std::string(3, static_cast<char>('0' + rank));
  RaceOrders orders;
  do {
    ++orders.all;
    orders.right += play_race(order).back().counter == ranks;
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

}  // namespace yotta
