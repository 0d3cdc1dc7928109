// What the ranks of a job on this machine and the process that has started them tell each other.
//
//     RankWords, in the starter              OwnWords, in each rank (it finds YOTTA_WORDS)
//     has_come(2)               ◄── come ──  before it looks for the other ranks
//     tell("rank 1 was killed") ── lost ──►  heard(): in its next call of the library
//     ended_well(2)             ◄── well ──  when it has left the others in order
//     said()                    ◄── says ──  an error that the starter should print once
//
// An exit status is not enough: a launcher may report success for a rank that has left before the
// end of MPI, and a rank that calls exit(0) in the middle of a run has status 0 too. So a job has
// ended well only if every rank has said so.
//
// They talk through a socket in the kernel that has no file (unix(7), "abstract"), so nothing is
// left behind, however the job ends; both sides refuse other users. A word is a line of text.
// Cost: nothing until a process of the job ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "yotta/core/system/build.hpp"

namespace yotta {

// The environment variable that names the socket.
inline constexpr const char* words_variable = "YOTTA_WORDS";

class RankWords {
 public:
  // Errors: the kernel has no socket for it.
  explicit RankWords(int ranks);
  ~RankWords();
  RankWords(const RankWords&) = delete;
  RankWords& operator=(const RankWords&) = delete;

  // What the ranks must find in YOTTA_WORDS.
  std::string name() const;
  // Takes what has come; waits for it, so many milliseconds at most.
  void read(int milliseconds);
  bool has_come(int rank) const;
  bool ended_well(int rank) const;
  // The errors that ranks have left for the starter to print, each once.
  const std::vector<std::string>& said() const;
  // All ranks hear that one is lost, those too that come later.
  void tell(int lost_rank, const std::string& how);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a rank hears.
struct LostRank {
  int rank = -1;
  std::string how;  // "was killed: Killed"
};

class OwnWords {
 public:
  // Says that this rank has come, if a starter listens.
  explicit OwnWords(int rank);
  ~OwnWords();
  OwnWords(const OwnWords&) = delete;
  OwnWords& operator=(const OwnWords&) = delete;

  // Is there a starter that listens?
  bool has_listener() const;
  void say_well();
  // False: no starter listens, so this process must print it itself.
  bool say(const std::string& error);
  // The first rank that is lost, by the starter's word. Never blocks.
  std::optional<LostRank> heard();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/rank_words.ipp"
#endif
