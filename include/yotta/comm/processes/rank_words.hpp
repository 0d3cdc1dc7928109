// What the ranks of a job on this machine tell the process that has started them.
//
//     OwnWords, in each rank (it finds YOTTA_WORDS)                  RankWords, in the starter
//     say_well()    when it has left the others in order  ── well ──►  ended_well(2)
//     say("...")    an error that the starter prints once ── says ──►  said()
//
// An exit status is not enough: a launcher may report success for a rank that has left before the
// end of MPI, and a rank that calls exit(0) in the middle of a run has status 0 too. So a job has
// ended well only if every rank has said so.
//
// Words go through a socket in the kernel that has no file (unix(7), "abstract"), so nothing is
// left behind, however the job ends; both sides refuse other users. A word is a line of text.
// Cost: nothing until a process of the job ends.
#pragma once

#include <memory>
#include <string>
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
  bool ended_well(int rank) const;
  // The errors that ranks have left for the starter to print, each once.
  const std::vector<std::string>& said() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class OwnWords {
 public:
  // Finds the starter, if one listens.
  explicit OwnWords(int rank);
  ~OwnWords();
  OwnWords(const OwnWords&) = delete;
  OwnWords& operator=(const OwnWords&) = delete;

  // Is there a starter that listens?
  bool has_listener() const;
  void say_well();
  // False: no starter listens, so this process must print it itself.
  bool say(const std::string& error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/rank_words.ipp"
#endif
