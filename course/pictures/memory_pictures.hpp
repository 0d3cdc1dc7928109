// Pictures of memory over time, drawn from runs on the virtual clock.
//
//     fsdp_life            FSDP's units on rank 0: each gathered, used, dropped, reduced; below,
//                          what they borrow
//     checkpoint_memory    what four ways of activation checkpointing hold in one step of a
//                          transformer, by the ledger
//
// The files in course/pictures/ are what `./yotta lesson 15 -- --draw 1` and `./yotta lesson 17 --
// --draw 1` write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yotta {

struct Span {
  double begin, end;  // seconds
};

// The most that was held at once between two moments.
struct Held {
  Span when;
  int64_t bytes;
};
int64_t most(const std::vector<Held>& all);

// One forward and backward pass of a linear net on four ranks, one layer per unit, as rank 0 saw
// it.
struct FsdpLife {
  struct Work {
    char what;  // F, I, W
    Span when;
  };
  struct Unit {
    std::vector<Span> whole;      // from the gather's start to the drop
    std::vector<Span> gathers;    // on the network
    std::vector<Work> computing;  // F, I, W
    Span gradients, sum;          // whole, and this rank's part of their sum: until they are freed
    Span reduction;               // on the network
  };
  int ranks = 4;
  double gather = 0;       // seconds of one
  int64_t unit_bytes = 0;  // of a unit's weights
  std::vector<Unit> units;
  std::vector<Held> borrowed;  // weights, gradients and sums of all units
  int64_t ledger_peak = 0;     // all buffers: a ring adds two chunks of its own while it reduces
  double seconds = 0;
};
struct FsdpLinks {
  double gather = 0.5;  // seconds; F takes 1
  bool prefetch = true;
};
FsdpLife fsdp_life(const FsdpLinks& links = {});
std::string fsdp_life_svg(const FsdpLife& life);

// One step of a transformer under one choice of what to keep.
struct CheckpointRun {
  std::string name;
  std::vector<Held> held;  // activations
  double seconds = 0;
};
std::vector<CheckpointRun> checkpoint_runs();
std::string checkpoint_memory_svg(const std::vector<CheckpointRun>& runs);

// {file, drawing} of both.
std::vector<std::pair<std::string, std::string>> memory_pictures();

}  // namespace yotta
