// What both starters of processes share: a child with its line (word_line.hpp), and the sockets
// that the ranks of an epoch get to each other.
//
//     start_child({"/path/program"}, 2, 4)     a process that finds RANK=2, WORLD_SIZE=4 and its
//                                              end of the line
//     SocketPairs(epoch, lines).give()         rank 0 ═══ rank 1, rank 0 ═══ rank 2, ...
//
// A pair is made, one end of it goes to each of its two ranks, and the starter closes both: it
// holds few, however many ranks there are. It goes on when the lines have room.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "yotta/comm/sockets/word_line.hpp"

namespace yotta {

// A process has a socket for each other, and many systems let it have 1024.
inline constexpr int most_child_ranks = 250;
void expect_child_ranks(int ranks, Where where);

struct JobChild {
  pid_t process = -1;  // or minus the error
  std::shared_ptr<WordLine> line = {};
};
// Starts a process, which the kernel kills when this thread ends. `more` are settings for it beside
// those of a rank.
JobChild start_child(const std::vector<std::string>& program, int rank, int ranks,
                     const std::vector<std::string>& more = {});

class SocketPairs {
 public:
  SocketPairs() = default;
  // Of the ranks at the other ends of these lines, by rank.
  SocketPairs(int epoch, std::vector<std::shared_ptr<WordLine>> lines)
      : epoch_(epoch), lines_(std::move(lines)) {}
  // Makes and sends those for which the lines have room. True: none is left to make.
  bool give();

 private:
  int epoch_ = 0;
  std::vector<std::shared_ptr<WordLine>> lines_;
  size_t first_ = 0, second_ = 1;  // the next pair
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/job_children.ipp"
#endif
