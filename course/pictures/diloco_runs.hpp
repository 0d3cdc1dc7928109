// Runs of DiLoCo and its family on text, on a machine of cities that is only described: what loss
// they reach after how many tokens, bytes and seconds. The weights are real, and the seconds are
// the virtual clock's.
//
// The file bench/results/diloco_curves.json is what `./yotta bench diloco_curves` wrote.
#pragma once

#include <string>
#include <vector>

#include "yotta/parallel/diloco.hpp"

namespace yotta {

// Workers in four cities, one chip each: of one continent, or two on each side of an ocean. A fifth
// chip, in worker 0's city, is the server of the asynchronous run.
inline constexpr int diloco_workers = 4;

enum class DilocoKind { ddp, diloco, asynchronous, gossip };

struct DilocoMethod {
  std::string name;  // as in the file
  DilocoKind kind;
  DilocoOptions options;
  bool ocean = false;  // the same losses and bytes, and other seconds
};

// DDP, plain means of weights, DiLoCo with two H, streaming, 8 and 4 bits, asynchronous, gossip;
// over an ocean DDP and DiLoCo.
std::vector<DilocoMethod> diloco_methods();

struct DilocoSizes {
  int64_t layers = 2, width = 64, heads = 2, context = 64;
  int64_t batch = 8;  // sequences in a step, of all workers together
  int64_t steps = 1200, every = 50;
  double rate = 1e-3;
};

// After some steps of worker 0: what it has sent since the start (of means, those that have
// arrived), when that was, and the loss on the kept text. That of the asynchronous run is of the
// server's weights, once all workers have ended their round.
struct DilocoPoint {
  int64_t step;
  double megabytes, seconds, loss;
};
struct DilocoCurve {
  std::string name;
  std::vector<DilocoPoint> points;
};

DilocoCurve run_diloco(const DilocoMethod& method, const DilocoSizes& sizes,
                       const std::string& text, uint64_t seed = 0);

}  // namespace yotta
