// JobLine: a child's end of the line to the process that has started it (word_line.hpp), and what
// it has heard on it.
//
//     starter ──► child                              child ──► starter
//     peer E R    a socket to rank R, in epoch E     come E     it is there, for epoch E
//     news TEXT   who is who: JobNews                well       it has left the others in order
//     lost E R    rank R has died, and how           says TEXT  an error, to be printed once
//     note KEY    a file in memory                   note KEY   the same: for those that come later
//                                                    asks E     others are to be let in
//                                                    finished   the work is done
//
// run_processes.hpp starts jobs of one epoch. run_members.hpp starts those whose members are
// replaced when they die: their epochs have numbers from 1 on, and `come 0` says that a process is
// ready.
// A process learns who has started it from two variables of its environment: YOTTA_WORDS is
// "fd:7", its end; YOTTA_LAUNCHER is the starter, and the kernel says whether that is at the other
// end. What this process starts in turn has the variables, but not the end.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/comm/sockets/word_line.hpp"

namespace yotta {

// The environment variable that names the starter.
inline constexpr const char* starter_variable = "YOTTA_LAUNCHER";
// And that which says that members of this job are replaced when they die.
inline constexpr const char* members_variable = "YOTTA_JOB_MEMBERS";

// A process of a job.
struct JobProcess {
  int place = 0, number = 0;  // its number at that place
  int process = 0;
};
// A rank that has died, and how.
struct LostRank {
  int rank = -1;
  std::string how;  // "was killed: Killed"
};
// What the starter says of a job.
struct JobNews {
  int epoch = 0;                             // 0: none yet
  bool done = false;                         // the work is, or it cannot be
  std::vector<JobProcess> members, waiting;  // by rank; ready, and with no place in this epoch
  std::vector<Death> deaths = {};
};
std::string news_text(const JobNews& news);
// Errors: no such text.
JobNews parse_news(const std::string& text, Where where = Where::current());

class JobLine {
 public:
  explicit JobLine(Descriptor end) : line_(std::move(end)) {}
  // That of this process, the same at each call; null: none has started it in this way.
  static std::shared_ptr<JobLine> find(const Environment& get = own_environment);
  // Is this process a member that is replaced when it dies?
  static bool is_member(const Environment& get = own_environment);

  // --- what the starter says ---
  // Takes what has come; never blocks.
  void read();
  // Reads until `is_it` holds of the news, or the work is done.
  void await_news(const std::function<bool(const JobNews&)>& is_it, Where where = Where::current());
  const JobNews& news() const { return news_; }
  // The sockets to the ranks of an epoch, by rank; of this one, and of those that had died by then,
  // none. They go to who asks.
  std::vector<Descriptor> take_peers(int epoch, int ranks);
  // The next rank of an epoch that has died, by the starter's word.
  std::optional<LostRank> take_lost(int epoch);
  // What a process of this job has left under this key; empty: none has.
  std::optional<std::string> note(const std::string& key);
  int number() const { return line_.number(); }  // to be waited for; -1: the starter has ended

  // --- what this process says ---
  void say_come(int epoch) { line_.send(fmt::format("come {}", epoch)); }
  void say_well() { line_.send("well"); }
  void say(const std::string& error) { line_.send("says " + error); }
  void say_asks(int epoch) { line_.send(fmt::format("asks {}", epoch)); }
  void say_finished() { line_.send("finished"); }
  // Leaves bytes for those that come later. They hear of it when they start, and else when the next
  // epoch begins.
  void leave_note(const std::string& key, const std::string& bytes);

 private:
  void hear(LineWord word);

  WordLine line_;
  JobNews news_;
  int peers_epoch_ = 0;
  std::map<int, Descriptor> peers_;  // of that epoch, by rank
  std::vector<std::pair<int, LostRank>> lost_;
  std::map<std::string, Descriptor> notes_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/job_line.ipp"
#endif
